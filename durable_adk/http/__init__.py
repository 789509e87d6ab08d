"""What all HTTP servers of this package share: the process, its address and its checks."""
