"""What a group coordinator and a transaction coordinator are asked."""
