------------------------------- MODULE quorumlock -------------------------------
(* The core of the protocol: what nodes and owners do, and what must hold.        *)
(* model_test.go is the same model in Go; where the two differ, a comment says so.*)
(* The Go model also has permits, hand-overs, downgrades and latches.             *)
(* An owner is one lease, from its first request on. Time is in ticks. Requests   *)
(* and answers stay in flight for ever: each may arrive now, later, twice, out of *)
(* order, or never.                                                               *)
EXTENDS Integers, FiniteSets

CONSTANTS
  Nodes, Owners,      \* finite sets
  List,               \* the nodes that each owner uses: [Owners -> SUBSET Nodes]
  Readers,            \* the owners that only read
  Begins, Stops,      \* when the program of an owner begins and stops: in a change of nodes by one
                      \* at a time, the next list but one begins R after the last program has left a list
  TTL, AcquireTTL,    \* of renewals, which is the longest; of acquisitions
  Drift, Skew,        \* what clients take off a TTL; how far wall clocks differ
  Horizon, Losses, Lags, Renewals  \* bounds of a run

None == -1
R == TTL + Skew                      \* how long a node with a new memory recovers
Max(a, b) == IF a > b THEN a ELSE b
Majority(o, S) == 2 * Cardinality(S) > Cardinality(List[o])

VARIABLES
  now, losses, lags,
  \* Nodes. until[n][o] is when the lock of o expires on n. forgot[n]: the memory of n
  \* is new, and no script has seen that. saved[n] is the copy on the disk of n.
  until, fence, forgot, recovering, saved,
  \* Owners. clock, claim and validUntil are by the owner's own clock. took[o] has the nodes
  \* that took token[o] as their largest. sent[o] has the requests of o.
  phase, clock, lagged, token, sent, claim, took, validUntil,
  answers,            \* of nodes, to all owners
  largest, ordered    \* the largest token of a lease so far; whether tokens have grown

nodeVars == <<until, fence, forgot, recovering, saved>>
ownerVars == <<phase, clock, lagged, token, sent, claim, took, validUntil>>
history == <<largest, ordered>>
vars == <<now, losses, lags, nodeVars, ownerVars, answers, history>>

Init ==
  /\ now = 0 /\ losses = 0 /\ lags = 0
  /\ until = [n \in Nodes |-> [o \in Owners |-> 0]]
  /\ fence = [n \in Nodes |-> None] /\ forgot = [n \in Nodes |-> FALSE]
  /\ recovering = [n \in Nodes |-> 0]
  /\ saved = [n \in Nodes |-> [until |-> [o \in Owners |-> 0], fence |-> None]]
  /\ phase = [o \in Owners |-> "idle"] /\ clock = [o \in Owners |-> 0]
  /\ lagged = [o \in Owners |-> -TTL] /\ token = [o \in Owners |-> None]
  /\ sent = [o \in Owners |-> {}] /\ claim = [o \in Owners |-> [n \in Nodes |-> 0]]
  /\ took = [o \in Owners |-> {}] /\ validUntil = [o \in Owners |-> 0]
  /\ answers = {} /\ largest = None /\ ordered = TRUE

Has(n, o) == until[n][o] > now
Excludes(p, o) == p # o /\ ~(p \in Readers /\ o \in Readers)
Blocked(n, o) == \E p \in Owners : Excludes(p, o) /\ Has(n, p)
Valid(o) == phase[o] = "held" /\ clock[o] < validUntil[o]
Running(o) == Begins[o] <= now /\ now <= Stops[o]
Sent(o, kind) == {r \in sent[o] : r.kind = kind}

---------------------------------------------------------------------------------
(* The world.                                                                     *)

\* Clocks of clients may stand still, each for one tick in a TTL, if Drift allows that.
Tick ==
  /\ now < Horizon
  /\ \E still \in SUBSET {o \in Owners : Drift > 0 /\ now - lagged[o] >= TTL} :
       /\ lags + Cardinality(still) <= Lags
       /\ lags' = lags + Cardinality(still)
       /\ clock' = [o \in Owners |-> IF o \in still THEN clock[o] ELSE clock[o] + 1]
       /\ lagged' = [o \in Owners |-> IF o \in still THEN now ELSE lagged[o]]
  /\ now' = now + 1
  /\ UNCHANGED <<losses, nodeVars, phase, token, sent, claim, took, validUntil, answers, history>>

\* A node forgets everything, or comes back with what it once wrote to its disk.
Lose(n) ==
  /\ losses < Losses /\ losses' = losses + 1
  /\ forgot' = [forgot EXCEPT ![n] = TRUE]
  /\ \E copy \in {saved[n], [until |-> [o \in Owners |-> 0], fence |-> None]} :
       /\ until' = [until EXCEPT ![n] = copy.until]
       /\ fence' = [fence EXCEPT ![n] = copy.fence]
  /\ UNCHANGED <<now, lags, recovering, saved, ownerVars, answers, history>>

Write(n) ==
  /\ losses < Losses                  \* otherwise nobody reads it
  /\ saved' = [saved EXCEPT ![n] = [until |-> until[n], fence |-> fence[n]]]
  /\ UNCHANGED <<now, losses, lags, until, fence, forgot, recovering, ownerVars, answers, history>>

---------------------------------------------------------------------------------
(* Nodes: one script each. It reads first, and writes last.                       *)

\* The first script that meets a new memory begins the recovery, and grants nothing.
\* Nobody may hold a lock that the node forgot for longer than that.
RunAcquire(n, o, r) ==
  IF forgot[n] THEN
    /\ forgot' = [forgot EXCEPT ![n] = FALSE]
    /\ recovering' = [recovering EXCEPT ![n] = now + R]
    /\ UNCHANGED <<now, losses, lags, until, fence, saved, ownerVars, answers, history>>
  ELSE
    /\ recovering[n] <= now /\ ~Blocked(n, o)
    /\ r.token <= now + Skew /\ r.token > now - TTL
    \* An acquisition that runs late finds its owner's lock, and keeps the longer life.
    /\ until' = [until EXCEPT ![n][o] = Max(@, now + AcquireTTL)]
    /\ fence' = IF o \in Readers THEN fence ELSE [fence EXCEPT ![n] = Max(@, r.token)]
    /\ answers' = answers \cup {[to |-> o, node |-> n, request |-> r,
                                 took |-> o \in Readers \/ fence[n] < r.token, recovering |-> FALSE]}
    /\ UNCHANGED <<now, losses, lags, forgot, recovering, saved, ownerVars, history>>

\* A renewal puts a lock back that is gone, and raises the fence to the lease's token.
RunRenew(n, o, r) ==
  /\ ~Blocked(n, o)
  /\ LET end == IF forgot[n] THEN now + R ELSE recovering[n] IN
       /\ recovering' = [recovering EXCEPT ![n] = end]
       /\ answers' = answers \cup {[to |-> o, node |-> n, request |-> r,
                                    took |-> FALSE, recovering |-> end > now]}
  /\ forgot' = [forgot EXCEPT ![n] = FALSE]
  /\ until' = [until EXCEPT ![n][o] = Max(@, now + TTL)]
  /\ fence' = IF o \in Readers THEN fence ELSE [fence EXCEPT ![n] = Max(@, r.token)]
  /\ UNCHANGED <<now, losses, lags, saved, ownerVars, history>>

RunRelease(n, o) ==
  /\ until' = [until EXCEPT ![n][o] = 0]
  /\ UNCHANGED <<now, losses, lags, fence, forgot, recovering, saved, ownerVars, answers, history>>

Run(n, o, r) ==
  CASE r.kind = "acquire" -> RunAcquire(n, o, r)
    [] r.kind = "renew"   -> RunRenew(n, o, r)
    [] r.kind = "release" -> RunRelease(n, o)

---------------------------------------------------------------------------------
(* Owners.                                                                        *)

\* An owner asks, and may ask once more with a larger token. Its wall clock is off by Skew at most.
Propose(o) ==
  /\ Running(o) /\ phase[o] \in {"idle", "asks"} /\ Cardinality(Sent(o, "acquire")) < 2
  /\ \E t \in (now - Skew) .. (now + Skew) :
       /\ t > token[o]
       /\ token' = [token EXCEPT ![o] = t]
       /\ sent' = [sent EXCEPT ![o] = @ \cup {[kind |-> "acquire", token |-> t, at |-> clock[o]]}]
  /\ took' = [took EXCEPT ![o] = {}]
  /\ phase' = [phase EXCEPT ![o] = "asks"]
  /\ UNCHANGED <<now, losses, lags, nodeVars, clock, lagged, claim, validUntil, answers, history>>

Renew(o) ==
  /\ Running(o) /\ Valid(o) /\ Cardinality(Sent(o, "renew")) < Renewals
  /\ sent' = [sent EXCEPT ![o] = @ \cup {[kind |-> "renew", token |-> token[o], at |-> clock[o]]}]
  /\ UNCHANGED <<now, losses, lags, nodeVars, phase, clock, lagged, token, claim, took, validUntil,
                 answers, history>>

\* Until when a majority of the nodes backs a lease with these claims.
BackedUntil(o, claims) ==
  CHOOSE t \in {0} \cup {claims[n] : n \in List[o]} :
    /\ t = 0 \/ Majority(o, {n \in List[o] : claims[n] >= t})
    /\ \A u \in {claims[n] : n \in List[o]} : u > t => ~Majority(o, {n \in List[o] : claims[n] >= u})

\* An answer counts from the time of the send. Nothing counts for a lease that is over, and
\* a recovering node counts only while an older claim on it is active.
Process(o, a) ==
  /\ a.to = o /\ (phase[o] = "asks" \/ Valid(o))
  /\ a.recovering => claim[o][a.node] > clock[o]
  /\ LET ttl == IF a.request.kind = "acquire" THEN AcquireTTL ELSE TTL
         claims == [claim[o] EXCEPT ![a.node] = Max(@, a.request.at + ttl - Drift)]
     IN /\ claim' = [claim EXCEPT ![o] = claims]
        /\ validUntil' = IF phase[o] = "held" THEN [validUntil EXCEPT ![o] = Max(@, BackedUntil(o, claims))]
                         ELSE validUntil
  /\ took' = IF a.took /\ a.request.token = token[o] THEN [took EXCEPT ![o] = @ \cup {a.node}] ELSE took
  /\ UNCHANGED <<now, losses, lags, nodeVars, phase, clock, lagged, token, sent, answers, history>>

\* A lease needs active claims on a majority, which took its token under them.
Win(o) ==
  /\ phase[o] = "asks"
  /\ Majority(o, {n \in took[o] : claim[o][n] > clock[o]})
  /\ phase' = [phase EXCEPT ![o] = "held"]
  /\ validUntil' = [validUntil EXCEPT ![o] = BackedUntil(o, claim[o])]
  /\ largest' = IF o \in Readers THEN largest ELSE Max(largest, token[o])
  /\ ordered' = (ordered /\ (o \in Readers \/ token[o] > largest))
  /\ UNCHANGED <<now, losses, lags, nodeVars, clock, lagged, token, sent, claim, took, answers>>

\* A release, or the undo of an acquisition. What was sent before may still run.
End(o) ==
  /\ phase[o] \in {"asks", "held"}
  /\ phase' = [phase EXCEPT ![o] = "over"]
  /\ sent' = [sent EXCEPT ![o] = @ \cup {[kind |-> "release", token |-> token[o], at |-> clock[o]]}]
  /\ UNCHANGED <<now, losses, lags, nodeVars, clock, lagged, token, claim, took, validUntil, answers, history>>

---------------------------------------------------------------------------------
Next ==
  \/ Tick
  \/ \E n \in Nodes : Lose(n) \/ Write(n)
  \/ \E o \in Owners :
       \/ Propose(o) \/ Renew(o) \/ Win(o) \/ End(o)
       \/ \E n \in List[o], r \in sent[o] : Run(n, o, r)
       \/ \E a \in answers : Process(o, a)

Spec == Init /\ [][Next]_vars

Exclusion == \A o, p \in Owners : Valid(o) /\ Valid(p) => ~Excludes(o, p)
TokensGrow == ordered
\* While a lease is valid, each node of a majority has its lock, or gives nothing to others.
Backed == \A o \in Owners : Valid(o) =>
  Majority(o, {n \in List[o] : Has(n, o) \/ forgot[n] \/ recovering[n] > now})
=================================================================================
