"""The federation: contract, routing, event journal, HTTP API, client and command line of spotfed.

Words used here, each with one meaning. A name that holds a quantity carries its unit (`lifetime_s`,
`price_usd_per_hour`).

broker
    This product: it takes requests from members and finds the cloud that can honour them. Stateless; any
    number of copies may run. Celery calls its message server a broker; here that server is *the queue*.
queue
    The Redis (or Valkey) server that carries tasks, streams, leases and events. `cloud.<id>` and `montecarlo`
    are Celery queues on it.
worker
    A Celery process. Never a compute node.
cloud
    One member of the federation: nodes under one administration, with users of its own.
member
    A cloud seen from the federation: it offers idle cores and may ask for others'.
origin
    The member on whose behalf a request is made.
owner
    The one worker that may change a cloud's state. It holds the *owner lease* in Redis, with a *fence* that
    only grows; an owner whose fence is old is *fenced*: its appends are refused and it stops.
node
    One machine of a cloud, with a number of cores.
instance
    Something that runs on a node and occupies cores.
slot
    Room for one instance of a given size on one node: a node with 7 free cores has three slots of size 2.
on-demand
    A request or instance of a cloud's own users. Never evicted; admitted whenever it fits once spot instances
    have been evicted.
spot
    A request or instance on idle cores, lent to whoever asks until the cloud's own users need them back.
lifetime
    How long an instance is meant to run, in seconds of its cloud's time.
SLA
    The largest probability of eviction before the lifetime ends that the requester accepts. 1 or none: no
    guarantee.
quote
    What a cloud would promise now, without side effects: how long a spot instance survives at an SLA, and the
    probability that it is evicted before its lifetime ends.
admission
    The owner's decision to promise: it compares a request with its quote.
lease
    The promise about one instance: node, cores, from when to when, at which SLA, after which table. Ends
    exactly once: completed, evicted, cancelled or failed.
refusal
    The answer that is not a lease: who refused, why, whether evicting someone would help, and counter-offers.
counter-offer
    The longest lifetime at the SLA that was asked, or the SLA at the lifetime that was asked.
reservation
    Cores an owner holds for a short time for a request that was quoted and is about to be confirmed.
eviction
    The end of a spot instance because its cloud's own users need the cores. The youngest goes first, unless a
    cloud's line-up says otherwise.
time until eviction
    The random lifetime of a spot instance that nobody stops, estimated by Monte-Carlo replay of the recorded
    load.
sample
    One Monte-Carlo replay: a random starting point in the record, and what happened to the spot instance
    placed there.
table
    A cloud's quantiles of time until eviction, by instance size and SLA, made from samples. Versioned;
    *refreshed* every few hours, or when the load drifts.
advert
    What a cloud tells the broker about itself from time to time: free slots, digest of its table, price.
command
    A message to an owner. Its id makes it idempotent: the second one gets the first one's answer.
inbox
    The stream that keeps a cloud's commands until the owner has handled them.
doorbell
    The Celery task that tells an owner to look into its inbox. It may be lost; the inbox may not.
journal
    The stream of a cloud's events, numbered by *sequence*: the truth. Redis pub/sub beside it only says it
    sooner.
ledger
    The record of promises kept and broken, per cloud and SLA.
overflow
    An on-demand request that its own cloud must refuse, offered to the federation as a spot request.
unreachable
    A cloud whose owner does not answer. Nothing new is routed to it; nothing it runs is declared lost.
"""
