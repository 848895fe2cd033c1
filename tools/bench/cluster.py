#!/usr/bin/env python3
"""How far data-parallel training scales on a cluster: computed, not measured.

    python3 tools/bench/cluster.py STEP FORWARD GRADIENT LAST

STEP      seconds of one rank for one update of its own part of a batch
FORWARD   share of STEP before backward begins, about 1/3
GRADIENT  bytes of all gradients: 4 for each weight
LAST      bytes of those that are final only at the end of backward: embeddings, and all that is not in a layer

The model of trf's sums (tools/trf/train/mpi.c): each rank sends (R - 1) / R of the gradients to the owners of the shares, and the
owners send as much back; both in R - 1 messages a slice. With overlap, slices travel both ways while backward computes the
layers below; the last slice and the updates wait. A link has a bandwidth that all traffic of a rank shares, and a latency for each message.
Printed: updates a second of R ranks over those of one, divided by R."""
import sys


def efficiency(ranks, bandwidth, latency, overlap, strong, step, forward, gradient, last, slices=13):
    compute = step / ranks if strong else step
    share = 2 * (ranks - 1) / ranks / bandwidth
    messages = 2 * (ranks - 1) * latency
    hidden, rest = (gradient - last) * share + (slices - 1) * messages, last * share + messages
    if overlap:
        seconds = compute * forward + max(compute * (1 - forward), hidden) + rest
    else:
        seconds = compute + hidden + rest
    return compute / seconds


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    step, forward, gradient, last = (float(x) for x in sys.argv[1:])
    print("| ranks | network | weak | weak, overlap | strong | strong, overlap |\n|---|---|---|---|---|---|")
    for ranks in 2, 8, 64, 512:
        for name, bandwidth, latency in ("10 Gbit/s, 50 us", 1.25e9, 50e-6), ("100 Gbit/s, 5 us", 12.5e9, 5e-6):
            cells = [f"{100 * efficiency(ranks, bandwidth, latency, overlap, strong, step, forward, gradient, last):.1f} %"
                     for strong in (0, 1) for overlap in (0, 1)]
            print(f"| {ranks} | {name} | " + " | ".join(cells) + " |")


main()
