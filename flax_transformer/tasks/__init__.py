"""What can be trained: each folder is a task of its own."""
