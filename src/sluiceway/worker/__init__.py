"""What runs inside a task: fetch, decode, convert, route, write."""
