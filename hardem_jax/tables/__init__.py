"""What queries and programs share: tables, their readers, searching objectives' tasks."""
