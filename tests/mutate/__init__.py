"""Small wrong changes of the code that holds a rule: does what is named as its proof see them?"""
