"""`twinlog acls`: the rights that exactly a file needs, as commands, KafkaUser or Terraform, and the missing rights."""
