"""Two rooms: when a standby may fence, and where it resumes in the other room's logs."""
