"""Published tables beside measured ones: the files that hold them, their corpora, their rows and the page."""
