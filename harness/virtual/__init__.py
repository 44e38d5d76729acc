"""Time and clusters that exist only in this process: what takes minutes on brokers takes milliseconds here."""
