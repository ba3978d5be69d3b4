// Tensors between processes: all directions and sizes, and what is left of them when processes die.
#include "fixture.hpp"

#include <support/sanitizers.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <numeric>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t mib = 1U << 20;
// More than a process keeps for its next tensors: such memory goes back to the system at once.
constexpr std::size_t large = limits::region_warm_bytes + 64 * mib;

std::vector<std::uint8_t> pattern(std::size_t bytes) {
  std::vector<std::uint8_t> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    values[i] = static_cast<std::uint8_t>(i % 251);
  return values;
}

Result<Shared<Tensor>> put_pattern(Cluster& cluster, std::size_t bytes) {
  return cluster.put(pattern(bytes), {static_cast<std::int64_t>(bytes)});
}

bool is_pattern(std::span<const std::uint8_t> values, std::size_t bytes) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != i % 251)
      return false;
  return values.size() == bytes;
}

bool is_pattern(const Result<Shared<Tensor>>& shared, std::size_t bytes) {
  INFO((shared ? "" : to_string(shared.error())));
  REQUIRE(shared.has_value());
  return is_pattern(must(shared->host<std::uint8_t>()), bytes);
}

TensorMessage message(v1::TensorRef ref) {
  TensorMessage result;
  *result.mutable_tensor() = std::move(ref);
  return result;
}

/// Puts and gets in a worker.
class Keeper : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  Result<TensorMessage> make(const Number& bytes) {
    auto cluster = Cluster::from(*this);
    GPUACTORS_LET(shared, put_pattern(cluster, static_cast<std::size_t>(bytes.value())));
    return message(std::move(shared).hand_over());
  }

  Result<TensorMessage> keep(const Number& bytes) {
    auto cluster = Cluster::from(*this);
    GPUACTORS_LET(shared, put_pattern(cluster, static_cast<std::size_t>(bytes.value())));
    kept_.push_back(shared);
    return message(shared.ref());
  }

  Result<TensorMessage> make_on_device(const Number& bytes) {
    const auto values = pattern(static_cast<std::size_t>(bytes.value()));
    GPUACTORS_LET(tensor, gpu().stream().tensor_from(values, {static_cast<std::int64_t>(values.size())}));
    GPUACTORS_LET(shared, tensors().put(std::move(tensor), gpu().stream()));
    return message(std::move(shared).hand_over());
  }

  /// How many bytes it has, all of them right; it stays here.
  Result<Number> hold(const TensorMessage& in) {
    GPUACTORS_LET(shared, tensors().get(in.tensor()));
    kept_.push_back(shared);
    GPUACTORS_LET(values, shared.host<std::uint8_t>());
    return number(is_pattern(values, values.size()) ? static_cast<double>(values.size()) : -1);
  }

  /// Passes what it holds on, as its own.
  TensorMessage last(const google::protobuf::Empty&) {
    return message(kept_.back().ref());
  }

  Number drop(const google::protobuf::Empty&) {
    kept_.clear();
    return number(static_cast<double>(tensors().size()));
  }

  Number pid(const google::protobuf::Empty&) {
    return number(::getpid());
  }

private:
  std::vector<Shared<Tensor>> kept_;
};

GPUACTORS_ACTOR("keeper", Keeper)
    .method("make", &Keeper::make)
    .method("keep", &Keeper::keep)
    .method("make_on_device", &Keeper::make_on_device)
    .method("hold", &Keeper::hold)
    .method("last", &Keeper::last)
    .method("drop", &Keeper::drop)
    .method("pid", &Keeper::pid);

GPUACTORS_TASK("make_tensor", [](TaskContext& ctx, const Number& bytes) -> Result<TensorMessage> {
  auto cluster = Cluster::from(ctx);
  GPUACTORS_LET(shared, put_pattern(cluster, static_cast<std::size_t>(bytes.value())));
  return message(std::move(shared).hand_over());
});

/// Whether an attempt to kill a process in the middle of a transfer hits it: the transfer may be faster.
bool hits_midway(const std::function<bool()>& attempt) {
  for (int tries = 0; tries < 10; ++tries)
    if (attempt())
      return true;
  return false;
}

ActorRef keeper(Cluster& cluster, const std::string& node = {}) {
  Options options{.gpus = 0.5};
  options.node = node;
  options.isolation = Isolation::process;
  return must(cluster.spawn("keeper", google::protobuf::Empty{}, options));
}

v1::TensorRef ask(const ActorRef& actor, const char* method, std::size_t bytes) {
  return must(actor.call<TensorMessage>(method, number(static_cast<double>(bytes))).get()).tensor();
}

bool holds(const ActorRef& actor, const v1::TensorRef& ref, std::size_t bytes) {
  return must(actor.call<Number>("hold", message(ref)).get()).value() == static_cast<double>(bytes);
}

double dropped(const ActorRef& actor) {
  return must(actor.call<Number>("drop").get()).value();
}

/// Regions of other processes or its own that a process maps.
std::size_t mapped_regions(pid_t pid) {
  std::ifstream maps{"/proc/" + std::to_string(pid) + "/maps"};
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:gpuactors") != std::string::npos ? 1U : 0U;
  return count;
}

/// Memory of a process that is there, whatever it is for.
std::size_t resident(pid_t pid) {
  std::ifstream status{"/proc/" + std::to_string(pid) + "/statm"};
  std::size_t pages = 0;
  status >> pages >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t descriptors(pid_t pid) {
  const std::filesystem::directory_iterator entries{"/proc/" + std::to_string(pid) + "/fd"};
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

/// Memory that a process can share, by the files that it holds: pages that it has not touched itself count as well.
std::size_t shareable(pid_t pid) {
  std::size_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/" + std::to_string(pid) + "/fd"}) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(entry.path(), error).string();
    struct stat status {};
    if (!error && target.find("memfd:gpuactors") != std::string::npos && ::stat(entry.path().c_str(), &status) == 0)
      bytes += static_cast<std::size_t>(status.st_blocks) * 512;
  }
  return bytes;
}

/// While it lives, new processes and clients send all bytes over TCP, as between machines: here is only one.
class WithoutSharedMemory {
public:
  WithoutSharedMemory() {
    ::setenv("GPUACTORS_SHARED_MEMORY", "0", 1);
  }
  WithoutSharedMemory(const WithoutSharedMemory&) = delete;
  WithoutSharedMemory& operator=(const WithoutSharedMemory&) = delete;
  ~WithoutSharedMemory() {
    ::unsetenv("GPUACTORS_SHARED_MEMORY");
  }
};

} // namespace

TEST_CASE("tensors of any size go from the program to actors, back, and from task to program", "[processes][tensors]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = keeper(cluster);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, mib, 64 * mib}) {
    INFO(bytes);
    const auto shared = must(put_pattern(cluster, bytes));
    CHECK(holds(actor, shared.ref(), bytes));
    CHECK(is_pattern(cluster.get(ask(actor, "make", bytes)), bytes));
    const auto made = cluster.submit<TensorMessage>("make_tensor", number(static_cast<double>(bytes))).get();
    CHECK(is_pattern(cluster.get(must(made).tensor()), bytes));
  }
  CHECK(is_pattern(cluster.get(ask(actor, "make_on_device", 8 * mib)), 8 * mib));
  // What was handed over is the taker's alone, and nothing else is left.
  CHECK(eventually([&] { return dropped(actor) == 0; }));
}

TEST_CASE("actors of one machine read one and the same memory", "[processes][tensors]") {
  Processes processes;
  auto cluster = processes.up();
  processes.start_node("n1");
  auto owner = keeper(cluster, "n0");
  auto reader = keeper(cluster, "n0");
  auto neighbour = keeper(cluster, "n1");
  const auto ref = ask(owner, "keep", 64 * mib);
  for (const auto& actor : {reader, neighbour}) {
    const auto pid = pid_of(actor);
    const auto before = mapped_regions(pid);
    CHECK(holds(actor, ref, 64 * mib));
    CHECK(mapped_regions(pid) == before + 1);
    // The handle is the reader's own: others get the tensor from it, too.
    const auto passed_on = must(actor.call<TensorMessage>("last").get()).tensor();
    CHECK(passed_on.store() != ref.store());
    CHECK(is_pattern(cluster.get(passed_on), 64 * mib));
  }
  // Mapped memory stays when its owner is killed; the tensor cannot be got any more.
  Processes::signal(pid_of(owner), SIGKILL);
  CHECK(is_pattern(cluster.get(must(reader.call<TensorMessage>("last").get()).tensor()), 64 * mib));
  REQUIRE(eventually([&] {
    const auto late = cluster.get(ref);
    return !late && late.error().code() == Errc::worker_died;
  }));
}

TEST_CASE("between machines tensors go over TLS", "[processes][tensors]") {
  const WithoutSharedMemory apart;
  Processes processes;
  auto cluster = processes.up();
  processes.start_node("n1");
  auto first = keeper(cluster, "n0");
  auto second = keeper(cluster, "n1");
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, 64 * mib}) {
    INFO(bytes);
    const auto ref = ask(first, "make", bytes);
    CHECK(ref.address().substr(0, 6) == "tls://");
    CHECK(holds(second, ref, bytes));
    const auto shared = must(put_pattern(cluster, bytes));
    CHECK(holds(first, shared.ref(), bytes));
  }
  CHECK(is_pattern(cluster.get(ask(second, "make_on_device", 8 * mib)), 8 * mib));
  CHECK(mapped_regions(pid_of(second)) == 0);
  CHECK(mapped_regions(getpid()) == 0);
  CHECK(eventually([&] { return dropped(first) == 0; }));
}

TEST_CASE("who waits for a tensor of a process that is frozen or killed is told", "[processes][frozen]") {
  const bool shares_memory = GENERATE(true, false);
  INFO(shares_memory);
  std::optional<WithoutSharedMemory> apart;
  if (!shares_memory)
    apart.emplace();
  Processes processes{Processes::link_timeout};
  auto cluster = processes.up();
  auto owner = keeper(cluster);
  const auto ref = ask(owner, "keep", mib);
  // Its agent kills it after a while.
  Processes::signal(pid_of(owner), SIGSTOP);
  // Who has no patience is told earlier, also behind one who has some.
  CHECK(cluster.get(ref, 50ms).error().code() == Errc::deadline_exceeded);
  const auto begin = Clock::now();
  auto other = std::async(std::launch::async, [&] { return cluster.get(ref); });
  CHECK(cluster.get(ref, 50ms).error().code() == Errc::deadline_exceeded);
  const auto got = other.get();
  REQUIRE_FALSE(got.has_value());
  CHECK(got.error().code() == Errc::worker_died);
  CHECK(Clock::now() - begin < 30s);
  CHECK(cluster.get(ref).error().code() == Errc::worker_died);
}

TEST_CASE("an owner that is killed midway fails the get, and what had come is freed", "[processes][tensors]") {
  const WithoutSharedMemory apart;
  Processes processes;
  auto cluster = processes.up();
  CHECK(hits_midway([&] {
    auto owner = keeper(cluster);
    const auto pid = pid_of(owner);
    const auto ref = ask(owner, "keep", large);
    const auto before = resident(getpid());
    auto got = std::async(std::launch::async, [&] { return cluster.get(ref); });
    REQUIRE(eventually([&] { return resident(getpid()) > before + 16 * mib; }));
    Processes::signal(pid, SIGKILL);
    bool failed = false;
    {
      const auto result = got.get();
      failed = !result.has_value();
      CHECK((!failed || result.error().code() == Errc::worker_died));
    }
    CHECK((!frees_at_once || eventually([&] { return resident(getpid()) < before + 16 * mib; })));
    return failed;
  }));
}

TEST_CASE("the memory of a hand-over whose taker is killed midway is freed", "[processes][tensors]") {
  const WithoutSharedMemory apart;
  Processes processes;
  auto cluster = processes.up();
  CHECK(hits_midway([&] {
    auto taker = keeper(cluster);
    const auto pid = pid_of(taker);
    // The ports and threads for tensors are there.
    CHECK(holds(taker, must(put_pattern(cluster, 1)).ref(), 1));
    const auto memory = resident(getpid());
    const auto files = descriptors(getpid());
    const auto taken = resident(pid);
    auto shared = must(put_pattern(cluster, large));
    CHECK(resident(getpid()) > memory + large - 16 * mib);
    // Longer than it takes the taker to begin, shorter than the test waits.
    const auto ref = std::move(shared).hand_over(6s);
    auto call = taker.call<Number>("hold", message(ref), 60s);
    REQUIRE(eventually([&] { return resident(pid) > taken + 16 * mib; }));
    Processes::signal(pid, SIGKILL);
    const bool failed = !call.get(20s);
    CHECK((!frees_at_once || eventually([&] { return resident(getpid()) < memory + 64 * mib; })));
    CHECK(eventually([&] { return descriptors(getpid()) <= files; }));
    CHECK(cluster.get(ref).error().code() == Errc::not_found);
    return failed;
  }));
}

TEST_CASE("the memory of takers that are killed is used again", "[processes][tensors]") {
  Processes processes;
  auto cluster = processes.up();
  std::size_t files = 0;
  constexpr int takers = 8;
  for (int i = 0; i < takers; ++i) {
    auto taker = keeper(cluster);
    const auto pid = pid_of(taker);
    CHECK(holds(taker, must(put_pattern(cluster, 32 * mib)).hand_over(), 32 * mib));
    Processes::signal(pid, SIGKILL);
    REQUIRE(eventually([&] { return ::kill(pid, 0) != 0 && is_idle(cluster); }));
    // One memory for all of them.
    CHECK(shareable(getpid()) <= 34 * mib);
    if (i == 0)
      files = descriptors(getpid());
  }
  // Connections come and go meanwhile; of one descriptor for each taker, seven would be left.
  CHECK(eventually([&] { return descriptors(getpid()) < files + takers / 2; }));
}

TEST_CASE("the memory of a hand-over that nobody takes is freed", "[processes][tensors]") {
  Processes processes;
  auto cluster = processes.up();
  must(put_pattern(cluster, 1));
  const auto files = descriptors(getpid());
  auto shared = must(put_pattern(cluster, large));
  CHECK(shareable(getpid()) >= large);
  const auto ref = std::move(shared).hand_over(100ms);
  CHECK(eventually([&] { return shareable(getpid()) == 0; }));
  CHECK(eventually([&] { return descriptors(getpid()) <= files; }));
  CHECK(cluster.get(ref).error().code() == Errc::not_found);
}
