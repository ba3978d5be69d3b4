// A program whose cluster is a global object: it ends after main, when other threads' and this thread's own variables
// of CAF are gone. Exit code 0 if it worked, and ended.
#include <gpuactors/gpuactors.hpp>

#include <google/protobuf/wrappers.pb.h>

#include <optional>

using Number = google::protobuf::DoubleValue;

namespace {

std::optional<gpuactors::Cluster> cluster;

GPUACTORS_TASK("square", [](gpuactors::TaskContext&, const Number& in) {
  Number out;
  out.set_value(in.value() * in.value());
  return out;
});

} // namespace

int main() {
  gpuactors::EmbedOptions options;
  options.devices = "host:1x64MiB";
  auto made = gpuactors::Cluster::embed(std::move(options));
  if (!made)
    return 1;
  cluster.emplace(std::move(*made));
  Number in;
  in.set_value(3);
  const auto out = cluster->submit<Number>("square", in, {.gpus = 0.5}).get();
  return out && out->value() == 9 ? 0 : 1;
}
