"""The hub's mailbox for moves: sealed objects on their way from one node to another."""
