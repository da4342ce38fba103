"""Work outside the driver's process: requests, answers, and where they are carried out."""
