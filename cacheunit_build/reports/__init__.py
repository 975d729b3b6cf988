"""Results -> what people and tools read. Pure: nothing here prints."""
