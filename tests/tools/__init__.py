"""Tools that tests and the demo run; none of them imports the product."""
