"""SQL over one table (WikiSQL). Z: queries that return the answer; f(z): their result."""
