"""The benchmark's models on SimPy: `python3 simpy_models.py mm1|ring N` prints events and seconds."""

import random
import sys
import time

import simpy


def mm1(customers):
    """M/M/1 at load 0.8; an arrival and a departure per customer."""
    env = simpy.Environment()
    server = simpy.Resource(env, capacity=1)
    rng = random.Random(1)
    left = [0]
    done = env.event()

    def customer():
        with server.request() as turn:
            yield turn
            yield env.timeout(rng.expovariate(1.0))
        left[0] += 1
        if left[0] == customers:
            done.succeed()

    def source():
        while True:
            yield env.timeout(rng.expovariate(0.8))
            env.process(customer())

    env.process(source())
    env.run(until=done)
    return 2 * customers


def ring(services):
    """8 stations, 64 customers; one event per service."""
    env = simpy.Environment()
    stations = [simpy.Resource(env, capacity=1) for _ in range(8)]
    rng = random.Random(1)
    count = [0]
    done = env.event()

    def customer(at):
        while True:
            with stations[at].request() as turn:
                yield turn
                yield env.timeout(rng.expovariate(1.0))
            at = (at + 1) % len(stations)
            count[0] += 1
            if count[0] == services:
                done.succeed()

    for c in range(64):
        env.process(customer(c % len(stations)))
    env.run(until=done)
    return services


if __name__ == "__main__":
    model, size = sys.argv[1], int(sys.argv[2])
    start = time.process_time()
    events = {"mm1": mm1, "ring": ring}[model](size)
    print(events, time.process_time() - start)
