"""Of which kind is an answer, and when are two of a kind equal?

Called in a judge's process only. `normal` spells a text in one way, `literals` reads numbers, `expressions` reads
formulas into trees, `evaluation` and `simplicity` ask what a tree is worth and whether it is worked out, `structure`
reads lists, tuples, sets, intervals, matrices and relations, `comparison` has one question per kind, `prose` finds the
answer in a sentence, `literature` has the checks of other projects.
"""
