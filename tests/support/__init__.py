"""What tests share: made-up input, plain counts to compare with, and other programs as referees."""
