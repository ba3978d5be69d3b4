// Rows of Ray's microbenchmark over Ray's C++ API, by their names; built and run by ray_cpp.py, never with this
// project.
//
// ray_cpp_rows CODE_FOLDER FILTER SECONDS ROUNDS ACTORS: prints a line of JSON, an array of rows. CODE_FOLDER holds
// this source as a shared library too, from which Ray's workers take the functions.
#include <ray/api.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int batch = 1'000;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

int small_value() {
  return 0;
}

RAY_REMOTE(small_value);

/// Does nothing, a call at a time.
class SmallActor {
public:
  static SmallActor* create() {
    return new SmallActor;
  }

  int small_value() {
    return 0;
  }

  int small_value_arg(int) {
    return 0;
  }
};

RAY_REMOTE(SmallActor::create, &SmallActor::small_value, &SmallActor::small_value_arg);

namespace {

using Handle = ray::ActorHandle<SmallActor>;

void take_all(std::vector<ray::ObjectRef<int>>& refs) {
  for (auto& ref : refs)
    (void)*ray::Get(ref);
}

void tasks_at_once() {
  std::vector<ray::ObjectRef<int>> refs;
  for (int i = 0; i < batch; ++i)
    refs.push_back(ray::Task(small_value).Remote());
  take_all(refs);
}

void calls_at_once(Handle& actor) {
  std::vector<ray::ObjectRef<int>> refs;
  for (int i = 0; i < batch; ++i)
    refs.push_back(actor.Task(&SmallActor::small_value).Remote());
  take_all(refs);
}

void many_actors(int count) {
  std::vector<Handle> actors;
  for (int i = 0; i < count; ++i)
    actors.push_back(ray::Actor(SmallActor::create).Remote());
  std::vector<ray::ObjectRef<int>> refs;
  for (auto& actor : actors)
    refs.push_back(actor.Task(&SmallActor::small_value).Remote());
  take_all(refs);
  for (auto& actor : actors)
    actor.Kill();
}

/// How a row is done, and how many operations that is.
struct Row {
  std::string name;
  double operations;
  std::function<std::function<void()>()> prepare;
};

std::vector<Row> rows(int actors) {
  const auto actor = [](auto run) {
    return [run] {
      return std::function<void()>{[run, handle = ray::Actor(SmallActor::create).Remote()]() mutable { run(handle); }};
    };
  };
  const auto plain = [](auto run) { return [run] { return std::function<void()>{run}; }; };
  return {
      {"single_client_tasks_sync", 1, plain([] { (void)*ray::Get(ray::Task(small_value).Remote()); })},
      {"single_client_tasks_async", batch, plain(tasks_at_once)},
      {"1_1_actor_calls_sync", 1,
       actor([](Handle& handle) { (void)*ray::Get(handle.Task(&SmallActor::small_value).Remote()); })},
      {"1_1_actor_calls_async", batch, actor(calls_at_once)},
      {"single_client_put_calls", 1, plain([] { (void)ray::Put(0); })},
      {"single_client_get_calls", 1,
       [] {
         // Made in its place: to Ray, an object whose reference was moved has nobody any more (seen in 2.60).
         const std::shared_ptr<ray::ObjectRef<int>> kept{new ray::ObjectRef<int>(ray::Put(0))};
         return std::function<void()>{[kept] { (void)*ray::Get(*kept); }};
       }},
      {"many_actors", double(actors), plain([actors] { many_actors(actors); })},
  };
}

double rate_of(const std::function<void()>& once, double operations, double seconds) {
  double done = 0;
  const auto start = now_seconds();
  do {
    once();
    done += operations;
  } while (now_seconds() - start < seconds);
  return done / (now_seconds() - start);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: ray_cpp_rows CODE_FOLDER FILTER SECONDS ROUNDS ACTORS\n";
    return 2;
  }
  const std::string filter = argv[2];
  const auto seconds = std::stod(argv[3]);
  const auto rounds = std::stoi(argv[4]);
  ray::RayConfig config;
  config.code_search_path = {argv[1]};
  ray::Init(config);
  std::ostringstream json;
  for (const auto& row : rows(std::stoi(argv[5]))) {
    if (row.name.find(filter) == std::string::npos)
      continue;
    std::cerr << "running " << row.name << ", Ray C++\n";
    const auto once = row.prepare();
    rate_of(once, row.operations, seconds / 2);
    double sum = 0;
    for (int i = 0; i < rounds; ++i)
      sum += rate_of(once, row.operations, seconds);
    json << (json.str().empty() ? "" : ",") << "{\"name\":\"" << row.name << "\",\"value\":" << sum / rounds
         << ",\"unit\":\"1/s\"}";
  }
  ray::Shutdown();
  std::cout << "[" << json.str() << "]" << std::endl;
  return 0;
}
