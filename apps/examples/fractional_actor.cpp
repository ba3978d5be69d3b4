// A fractional actor owns a share of one device for as long as it lives: its memory is a quota that it cannot pass, and
// what it keeps there stays between messages. Two of them share a device without noticing each other.
//
// The names of the actor type and its methods are constants with the messages' types, so that the compiler checks the
// calls; a larger program has them in a header.
#include "examples.pb.h"

#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

using examples::Number;
using google::protobuf::Empty;

constexpr gpuactors::ActorKind cache{"cache"};
constexpr gpuactors::Method<Number, Number> grow{"grow"};
constexpr gpuactors::Method<Empty, Number> used{"used"};

class Cache : public gpuactors::FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  // Keeps so many bytes more on the device. @returns what it keeps in all.
  gpuactors::Result<Number> grow(const Number& bytes) {
    GPUACTORS_LET(buffer, gpu().stream().allocate(static_cast<std::size_t>(bytes.value())));
    buffers_.push_back(std::move(buffer));
    return used(Empty{});
  }

  Number used(const Empty&) {
    Number result;
    result.set_value(static_cast<double>(gpu().memory_used()));
    return result;
  }

private:
  std::vector<gpuactors::Buffer> buffers_;
};

GPUACTORS_ACTOR(cache, Cache).method(grow, &Cache::grow).method(used, &Cache::used);

gpuactors::Result<void> run(int argc, char** argv) {
  // With --devices host:1x1GiB: one host device of 1 GiB, in this process; nothing to start.
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(argc, argv));
  GPUACTORS_LET(half, cluster.spawn(cache, {}, {.gpus = 0.5, .name = "half"}));
  GPUACTORS_LET(quarter, cluster.spawn(cache, {}, {.gpus = 0.25, .name = "quarter"}));
  for (const auto& actor : {half, quarter}) {
    const auto device = actor.lease().devices.front();
    fmt::print("{} has device {} with {}\n", actor.name(), device.index, gpuactors::format_bytes(device.memory_bytes));
  }
  Number bytes;
  bytes.set_value(200 << 20);
  GPUACTORS_TRY(half.call(grow, bytes).get());
  GPUACTORS_TRY(quarter.call(grow, bytes).get());
  // The second 200 MiB fit into a half of the device, but not into a quarter.
  GPUACTORS_TRY(half.call(grow, bytes).get());
  const auto refused = quarter.call(grow, bytes).get();
  fmt::print("quarter: {}\n", refused ? "has grown" : to_string(refused.error()));
  GPUACTORS_LET(kept, half.call(used).get());
  fmt::print("half keeps {}\n", gpuactors::format_bytes(static_cast<std::uint64_t>(kept.value())));
  return {};
}

// When a node of a cluster starts this program as its worker (gpuactors up --program FILE), that is what it does;
// otherwise it runs the above, and says what went wrong.
int main(int argc, char** argv) {
  return gpuactors::main(argc, argv, run);
}
