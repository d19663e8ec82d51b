"""What is measured: proper scores, reliability, classification, ranks. They take probabilities, labels and weights."""
