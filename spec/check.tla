--------------------------------- MODULE check ---------------------------------
(* What TLC explores: two owners on three nodes. check.cfg has the bounds.       *)
EXTENDS quorumlock, TLC
CONSTANTS n1, n2, n3, a, b

ThreeNodes == {n1, n2, n3}
TwoOwners == {a, b}
OneList == [o \in TwoOwners |-> ThreeNodes]
AtOnce == [o \in TwoOwners |-> 0]
AtTheEnd == [o \in TwoOwners |-> Horizon]
Symmetry == Permutations(ThreeNodes) \cup Permutations(TwoOwners)
================================================================================
