"""Amazon S3 and what speaks its protocol: conditional puts, copies, no folders."""
