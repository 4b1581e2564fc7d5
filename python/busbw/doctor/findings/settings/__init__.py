"""Settings that cost bandwidth, break a job or differ between ranks."""
