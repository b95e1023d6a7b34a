"""What providers give: logins to PostgreSQL, and whatever a handler program makes."""
