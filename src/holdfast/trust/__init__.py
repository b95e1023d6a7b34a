"""Who may say what: principals, permissions, signatures; deny by default."""
