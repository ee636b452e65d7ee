"""Certificates: proofs of a document's bound, their writer, and the checker that reads them."""
