"""Images, of the system and of servers' disks."""
