"""Making a stack what the program says: deciding, doing, deleting, refreshing, going on after a kill."""
