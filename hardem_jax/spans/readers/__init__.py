"""Files of questions with documents, in the official layouts."""
