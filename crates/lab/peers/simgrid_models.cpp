// The benchmark's models on SimGrid (S4U actors): `simgrid_models mm1|ring N` prints events and
// CPU seconds. Build: c++ -O2 simgrid_models.cpp -lsimgrid
#include <simgrid/s4u.hpp>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

static std::mt19937_64 rng(1);
static double exponential(double rate) { return std::exponential_distribution<double>(rate)(rng); }

// M/M/1 at load 0.8: a source actor and a server actor, an arrival and a departure per customer.
static long mm1(long customers, sg4::Host* host)
{
  auto waiting = sg4::Semaphore::create(0);
  sg4::Actor::create("server", host, [=] {
    for (long left = 0; left < customers; left++) {
      waiting->acquire();
      sg4::this_actor::sleep_for(exponential(1.0));
    }
  });
  sg4::Actor::create("source", host, [=] {
    for (long made = 0; made < customers; made++) {
      sg4::this_actor::sleep_for(exponential(0.8));
      waiting->release();
    }
  });
  sg4::Engine::get_instance()->run();
  return 2 * customers;
}

// 8 stations, 64 customers: one actor per station, one event per service.
static long ring(long services, sg4::Host* host)
{
  const int stations = 8, customers = 64;
  std::vector<sg4::SemaphorePtr> queue;
  for (int s = 0; s < stations; s++)
    queue.push_back(sg4::Semaphore::create(customers / stations));
  auto* done = new long(0);
  for (int s = 0; s < stations; s++) {
    auto station = sg4::Actor::create("station", host, [=] {
      while (true) {
        queue[s]->acquire();
        sg4::this_actor::sleep_for(exponential(1.0));
        queue[(s + 1) % stations]->release();
        if (++*done >= services)
          sg4::this_actor::exit();
      }
    });
    station->daemonize();
  }
  sg4::Actor::create("judge", host, [=] {
    while (*done < services)
      sg4::this_actor::sleep_for(1000.0);
  });
  sg4::Engine::get_instance()->run();
  return *done;
}

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  std::string model = argv[1];
  long size         = std::atol(argv[2]);
  auto* zone        = sg4::create_full_zone("zone");
  auto* host        = zone->create_host("host", 1e9);
  zone->seal();
  clock_t start = clock();
  long events   = model == "mm1" ? mm1(size, host) : ring(size, host);
  std::printf("%ld %f\n", events, double(clock() - start) / CLOCKS_PER_SEC);
  return 0;
}
