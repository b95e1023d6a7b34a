"""DNS resolvers: dnspython, or scripted answers for tests."""
