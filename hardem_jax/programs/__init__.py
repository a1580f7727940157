"""Programs over one table (WikiTableQuestions). Z: programs whose values are the answer."""
