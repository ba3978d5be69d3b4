// Tensors on a GPU between processes: opened where they lie, and what is left when processes are killed. On a GPU, or
// on the driver for tests, whose device memory is files without a name.
#include "fixture.hpp"
#include "gpu_only.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t bytes = 4U << 20;
constexpr std::int64_t ones = 1 << 18;

/// The driver of a chip takes seconds to start, and may keep all threads of its process meanwhile. The one for tests
/// does neither.
const bool on_a_chip = std::getenv("FAKE_CUDA_DEVICES") == nullptr;
const std::chrono::seconds patience = on_a_chip ? 60s : 20s;

std::vector<std::uint8_t> pattern() {
  std::vector<std::uint8_t> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    values[i] = static_cast<std::uint8_t>(i % 251);
  return values;
}

/// Files without a name that this process has mapped: "fake_cuda" is device memory of the driver for tests, "gpuactors"
/// host memory that processes share.
double mapped(const std::string& name) {
  std::ifstream maps{"/proc/self/maps"};
  double count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("/memfd:" + name) != std::string::npos ? 1 : 0;
  return count;
}

/// Lends a tensor that lies on its GPU.
class Lender : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  Result<TensorMessage> put(const google::protobuf::Empty&) {
    GPUACTORS_LET(tensor, gpu().stream().tensor_from(pattern(), {static_cast<std::int64_t>(bytes)}));
    GPUACTORS_LET(shared, tensors().put(std::move(tensor), gpu().stream()));
    TensorMessage message;
    *message.mutable_tensor() = std::move(shared).hand_over();
    return message;
  }

  /// Lends numbers that it keeps.
  Result<TensorMessage> put_ones(const google::protobuf::Empty&) {
    GPUACTORS_LET(tensor, gpu().stream().tensor_from(std::vector<double>(ones, 1.0), {ones}));
    GPUACTORS_LET(shared, tensors().put(std::move(tensor), gpu().stream()));
    TensorMessage message;
    *message.mutable_tensor() = shared.ref();
    ones_ = std::move(shared);
    return message;
  }

  /// The first of them.
  Result<Number> first(const google::protobuf::Empty&) {
    GPUACTORS_LET(values, ones_.to_host<double>());
    return number(values[0]);
  }

  Number kept(const google::protobuf::Empty&) {
    return number(static_cast<double>(tensors().size()));
  }

  Number used(const google::protobuf::Empty&) {
    return number(static_cast<double>(gpu().memory_used()));
  }

  Number pid(const google::protobuf::Empty&) {
    return number(::getpid());
  }

private:
  Shared<Tensor> ones_;
};

/// Opens it, and keeps what it has got.
class Borrower : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  /// @returns whether it reads the memory of its owner; -1 when it came through the host.
  Result<Number> open(const TensorMessage& in) {
    GPUACTORS_LET(shared, tensors().get(in.tensor()));
    GPUACTORS_LET(tensor, shared.on(gpu().stream()));
    shared_ = std::move(shared);
    tensor_ = std::move(tensor);
    return number(mapped("gpuactors") > 0 ? -1 : tensor_.shared_memory() != nullptr ? 1 : 0);
  }

  /// Whether what it has open has the right bytes.
  Result<Number> read(const google::protobuf::Empty&) {
    GPUACTORS_LET(values, gpu().stream().to_host<std::uint8_t>(tensor_));
    return number(values == pattern() ? 1 : 0);
  }

  /// Opens what it has a handle to once more.
  Result<Number> again(const google::protobuf::Empty&) {
    GPUACTORS_TRY(shared_.on(gpu().stream()));
    return number(1);
  }

  Number drop(const google::protobuf::Empty&) {
    tensor_ = Tensor{};
    shared_ = {};
    return number(0);
  }

  Number blocks(const google::protobuf::Empty&) {
    return number(mapped("fake_cuda"));
  }

  Text gpu_uuid(const google::protobuf::Empty&) {
    return text(gpu().device().uuid);
  }

  Number pid(const google::protobuf::Empty&) {
    return number(::getpid());
  }

private:
  Shared<Tensor> shared_;
  Tensor tensor_;
};

GPUACTORS_ACTOR("lender", Lender)
    .method("put", &Lender::put)
    .method("put_ones", &Lender::put_ones)
    .method("first", &Lender::first)
    .method("kept", &Lender::kept)
    .method("used", &Lender::used)
    .method("pid", &Lender::pid);
GPUACTORS_ACTOR("borrower", Borrower)
    .method("open", &Borrower::open)
    .method("read", &Borrower::read)
    .method("again", &Borrower::again)
    .method("drop", &Borrower::drop)
    .method("blocks", &Borrower::blocks)
    .method("gpu_uuid", &Borrower::gpu_uuid)
    .method("pid", &Borrower::pid);

ActorRef spawn(Cluster& cluster, const char* type, double gpus, Isolation isolation) {
  Options options{.gpus = gpus};
  options.isolation = isolation;
  return must(cluster.spawn(type, google::protobuf::Empty{}, options));
}

double ask(const ActorRef& actor, const char* method) {
  return must(actor.call<Number>(method).get(patience)).value();
}

/// Two processes on one GPU, the second of which has open what the first has put.
struct Neighbours {
  Processes processes;
  Cluster cluster = processes.up("cuda");
  ActorRef lender = spawn(cluster, "lender", 0.25, Isolation::process);
  ActorRef borrower = spawn(cluster, "borrower", 0.25, Isolation::process);
  v1::TensorRef ref = must(lender.call<TensorMessage>("put").get(patience)).tensor();

  double open() {
    TensorMessage message;
    *message.mutable_tensor() = ref;
    return must(borrower.call<Number>("open", message).get(patience)).value();
  }
};

} // namespace

TEST_CASE("a process opens the tensor of another one on their GPU, and gives it back", "[gpu]") {
  Neighbours two;
  CHECK(two.ref.device() == must(two.borrower.call<Text>("gpu_uuid").get(patience)).text());
  CHECK(two.open() == 1);
  CHECK(ask(two.borrower, "read") == 1);
  // The hand-over is done; it is the reader who keeps it, in the owner's quota.
  CHECK(ask(two.lender, "kept") == 1);
  CHECK(ask(two.lender, "used") == static_cast<double>(bytes));
  ask(two.borrower, "drop");
  CHECK(eventually([&] { return ask(two.lender, "kept") == 0; }));
  CHECK(eventually([&] { return ask(two.lender, "used") == 0; }));
  CHECK(eventually([&] { return ask(two.borrower, "blocks") == 0; }));
}

TEST_CASE("when the owner is killed its reader goes on with what it reads, and gets nothing new", "[gpu]") {
  Neighbours two;
  CHECK(two.open() == 1);
  Processes::signal(pid_of(two.lender), SIGKILL);
  CHECK(eventually([&] {
    const auto again = two.borrower.call<Number>("again").get(patience);
    return !again && again.error().code() == Errc::actor_died;
  }));
  CHECK(ask(two.borrower, "read") == 1);
  ask(two.borrower, "drop");
  CHECK(eventually([&] { return ask(two.borrower, "blocks") == 0; }));
}

TEST_CASE("when the reader is killed the owner has its memory back", "[gpu]") {
  Neighbours two;
  CHECK(two.open() == 1);
  Processes::signal(pid_of(two.borrower), SIGKILL);
  CHECK(eventually([&] { return ask(two.lender, "kept") == 0; }));
  CHECK(eventually([&] { return ask(two.lender, "used") == 0; }));
}

TEST_CASE("when the owner's actor ends the memory is not its any more", "[gpu]") {
  Neighbours two;
  CHECK(two.open() == 1);
  must(two.cluster.kill(two.lender));
  CHECK(eventually([&] { return !two.borrower.call<Number>("again").get(patience); }));
  CHECK(ask(two.borrower, "read") == 1);
}

TEST_CASE("a kernel from source that writes what another process has lent writes a copy", "[gpu]") {
  Processes processes;
  auto cluster = processes.up("cuda");
  auto lender = spawn(cluster, "lender", 0.25, Isolation::process);
  const auto lent = must(lender.call<TensorMessage>("put_ones").get(patience));
  SourceTask task{{"extern \"C\" __global__ void add_to(double* x, double by, long long n) {\n"
                   "  for (long long i = threadIdx.x; i < n; i += blockDim.x) x[i] += by;\n"
                   "}\n",
                   "add_to"}};
  task.in_out(lent.tensor()).scalar(5.0).scalar(ones);
  Options options{.gpus = 0.25};
  options.isolation = Isolation::process;
  const auto result = cluster.submit<v1::SourceResult>(SourceTask::type, task.message(), options).get(60s);
  if (!result && result.error().code() == Errc::unsupported && lacks(result.error()))
    return;
  const auto written = must(cluster.get(must(result).outputs(0).ref()));
  CHECK(must(written.to_host<double>())[0] == 6);
  CHECK(ask(lender, "first") == 1);
}

TEST_CASE("the worker of another GPU copies from it without the host", "[gpu]") {
  Processes processes;
  auto cluster = processes.up("cuda");
  if (must(cluster.state()).devices_size() < 2) {
    WARN("one GPU is visible");
    return;
  }
  auto lender = spawn(cluster, "lender", 0.75, Isolation::thread);
  auto borrower = spawn(cluster, "borrower", 0.75, Isolation::thread);
  const auto message = must(lender.call<TensorMessage>("put").get(patience));
  CHECK(message.tensor().device() != must(borrower.call<Text>("gpu_uuid").get(patience)).text());
  const auto way = must(borrower.call<Number>("open", message).get(patience)).value();
  // GPUs without a link to each other go through the host.
  CHECK(way == (on_a_chip ? std::min(way, 0.0) : 0));
  CHECK(ask(borrower, "read") == 1);
}
