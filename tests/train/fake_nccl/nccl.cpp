// A stand-in for libnccl.so.2 whose members are communicators of one process, and whose sums run as kernels of the fake
// CUDA driver: in the order of their streams, each waiting there for the others, as real ones do.
#include "nccl.hpp"

#include <device/fake_cuda/driver.hpp>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

using gpuactors::fake::FakeKernel;

enum Code : int { success = 0, invalid_argument = 4, in_progress = 7 };

struct UniqueId {
  std::array<char, 128> bytes;
};

struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

/// The parts of one sum that have come.
struct Round {
  std::map<int, std::vector<std::byte>> parts;
};

struct Group {
  int members = 0;
  int joined = 0;
  std::map<std::uint64_t, Round> rounds;
};

struct Comm {
  Group* group;
  int rank;
  std::uint64_t rounds = 0;
  bool aborted = false;
  /// Calls that are still to be told that it is in progress.
  int busy = 0;
  /// What a call has left it with: nothing works any more.
  int broken = success;

  [[nodiscard]] bool is_busy() const {
    return busy > 0 || group->joined < group->members;
  }
};

/// One sum of one member, on its stream.
struct Job {
  std::shared_ptr<Comm> comm;
  std::uint64_t round;
  const void* source;
  void* target;
  std::size_t count;
  int type;
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Group> groups;
  std::map<Comm*, std::shared_ptr<Comm>> comms;
  std::map<std::string, int> failing;
  std::string calls;
  int last_id = 0;
  int slowness = 0;
  bool aborts_wait = false;
};

World& world() {
  static World one;
  return one;
}

/// Notes a call, and says how it is to fail. With the mutex.
int enter(const std::string& function, int rank = -1) {
  auto& w = world();
  w.calls += (w.calls.empty() ? "" : ", ") + function + (rank < 0 ? "" : " " + std::to_string(rank));
  const auto found = w.failing.find(function);
  return found == w.failing.end() ? success : found->second;
}

template <class T>
void add_up(const Round& round, void* target, std::size_t count) {
  auto* sums = static_cast<T*>(target);
  for (std::size_t i = 0; i < count; ++i) {
    T sum{0};
    for (const auto& [rank, part] : round.parts)
      sum += reinterpret_cast<const T*>(part.data())[i];
    sums[i] = sum;
  }
}

void run(std::uint64_t, std::uint64_t, const void* pack) {
  const std::unique_ptr<Job> job{*static_cast<Job* const*>(pack)};
  auto& w = world();
  std::unique_lock lock{w.mutex};
  auto& round = job->comm->group->rounds[job->round];
  const auto* bytes = static_cast<const std::byte*>(job->source);
  const auto size = job->type == 8 ? sizeof(double) : sizeof(float);
  round.parts[job->comm->rank].assign(bytes, bytes + job->count * size);
  w.changed.notify_all();
  const auto members = static_cast<std::size_t>(job->comm->group->members);
  w.changed.wait(lock, [&] { return round.parts.size() == members || job->comm->aborted; });
  if (job->comm->aborted)
    return;
  if (job->type == 8)
    add_up<double>(round, job->target, job->count);
  else
    add_up<float>(round, job->target, job->count);
}

/// Starts the sum as any library would: by the driver's interface, which wants a current context.
int launch(Job* job, void* stream) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  using Find = int(const char*, void**, int, std::uint64_t, int*);
  auto* find = reinterpret_cast<Find*>(dlsym(driver, "cuGetProcAddress_v2"));
  void* function = nullptr;
  int status = 0;
  find("cuLaunchKernel", &function, 12000, 0, &status);
  using Launch =
      int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  static const FakeKernel kernel{"gpuactors_kernel_fake_nccl", &run, sizeof(Job*)};
  static void* const handle =
      reinterpret_cast<void* (*)(const FakeKernel*)>(dlsym(driver, "fake_cuda_kernel"))(&kernel);
  std::uint64_t n = 1;
  void* arguments[] = {&n, &job};
  return reinterpret_cast<Launch*>(function)(handle, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
}

} // namespace

extern "C" {

int ncclGetVersion(int* version) {
  const char* given = std::getenv("FAKE_NCCL_VERSION");
  *version = given != nullptr ? std::atoi(given) : 22105;
  return success;
}

const char* ncclGetErrorString(int code) {
  return code == 6 ? "remote process exited or there was a network error" : "it failed";
}

int ncclGetUniqueId(UniqueId* id) {
  auto& w = world();
  const std::lock_guard lock{w.mutex};
  const auto code = enter("ncclGetUniqueId");
  id->bytes.fill(0);
  const auto name = "group " + std::to_string(++w.last_id);
  std::memcpy(id->bytes.data(), name.data(), name.size());
  return code;
}

int ncclCommInitRankConfig(void** comm, int members, UniqueId id, int rank, Config* config) {
  auto& w = world();
  const std::lock_guard lock{w.mutex};
  if (const auto code = enter("ncclCommInitRankConfig", rank); code != success)
    return code;
  if (config->magic != 0xcafebeef || config->size != 24 || config->blocking != 0 || rank >= members)
    return invalid_argument;
  auto& group = w.groups[id.bytes.data()];
  group.members = members;
  ++group.joined;
  auto made = std::make_shared<Comm>(Comm{&group, rank});
  made->busy = w.slowness;
  *comm = made.get();
  w.comms[made.get()] = made;
  return made->is_busy() ? in_progress : success;
}

int ncclCommGetAsyncError(void* comm, int* state) {
  auto& w = world();
  const std::lock_guard lock{w.mutex};
  const auto found = w.comms.find(static_cast<Comm*>(comm));
  if (found == w.comms.end())
    return invalid_argument;
  auto& own = *found->second;
  const auto failing = w.failing.find("ncclCommGetAsyncError");
  *state = failing != w.failing.end() ? failing->second
           : own.broken != success    ? own.broken
           : own.is_busy()            ? in_progress
                                      : success;
  if (own.group->joined == own.group->members)
    own.busy = std::max(own.busy - 1, 0);
  return success;
}

int ncclAllReduce(const void* source, void* target, std::size_t count, int type, int operation, void* comm,
                  void* stream) {
  auto& w = world();
  std::unique_lock lock{w.mutex};
  const auto found = w.comms.find(static_cast<Comm*>(comm));
  if (found == w.comms.end() || operation != 0 || (type != 7 && type != 8))
    return invalid_argument;
  auto& own = *found->second;
  if (const auto code = enter("ncclAllReduce", own.rank); code != success)
    return code;
  // As the real one does: whoever has not asked until it was ready has lost the communicator.
  if (own.broken == success && own.is_busy())
    own.broken = invalid_argument;
  if (own.broken != success)
    return own.broken;
  own.busy = w.slowness;
  const auto begun = own.busy > 0 ? in_progress : success;
  auto* job = new Job{found->second, own.rounds++, source, target, count, type};
  lock.unlock();
  return launch(job, stream) == 0 ? begun : 1;
}

int ncclCommAbort(void* comm) {
  auto& w = world();
  std::unique_lock lock{w.mutex};
  w.changed.wait(lock, [&w] { return !w.aborts_wait; });
  const auto found = w.comms.find(static_cast<Comm*>(comm));
  if (found == w.comms.end())
    return invalid_argument;
  const auto code = enter("ncclCommAbort", found->second->rank);
  found->second->aborted = true;
  w.comms.erase(found);
  w.changed.notify_all();
  return code;
}

const char* fake_nccl_take_calls() {
  thread_local std::string taken;
  const std::lock_guard lock{world().mutex};
  taken = std::exchange(world().calls, {});
  return taken.c_str();
}

void fake_nccl_hold_aborts(bool hold) {
  const std::lock_guard lock{world().mutex};
  world().aborts_wait = hold;
  world().changed.notify_all();
}

void fake_nccl_fail(const char* function, int code) {
  const std::lock_guard lock{world().mutex};
  if (code == success)
    world().failing.erase(function);
  else
    world().failing[function] = code;
}

void fake_nccl_begin_slowly(int calls) {
  const std::lock_guard lock{world().mutex};
  world().slowness = calls;
}

int fake_nccl_live() {
  const std::lock_guard lock{world().mutex};
  return static_cast<int>(world().comms.size());
}
}
