"""The crash matrix: every failpoint, every fault, every state, judged by the independent reader."""
