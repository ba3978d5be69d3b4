#include "models_fixture.hpp"

#include <gpuactors/device/discovery.hpp>

#include <apps/nn/checkpoint.hpp>
#include <apps/nn/network.hpp>
#include <apps/serve/models/network_description.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

namespace serve::test {

using gpuactors::Result;

namespace {

std::unique_ptr<gpuactors::Context> open_host_device() {
  const auto specs = must(gpuactors::parse_device_specs("host:1x64MiB"));
  const auto devices = must(gpuactors::make_devices(specs, gpuactors::discovery_options("test")));
  return must(gpuactors::Context::open(devices.at(0), {}));
}

gpuactors::Cluster embed_devices(const std::string& devices) {
  gpuactors::EmbedOptions options;
  options.devices = devices;
  return must(gpuactors::Cluster::embed(std::move(options)));
}

/// A replica that infers when the gate lets it.
class Gated : public gpuactors::Actor {
public:
  Gated(gpuactors::Init init, const wire::ReplicaConfig& /*config*/) : Actor(std::move(init)) {
    // nop
  }

  wire::ReplicaDescription describe(const google::protobuf::Empty& /*ask*/) {
    return digits_description();
  }

  Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& batch) {
    const auto& x = batch.inputs(0);
    // Rows of zeros are what it is measured with.
    const auto measured = x.find_first_not_of('\0') == std::string::npos;
    if (!measured && !gate().pass([this] { return stop_requested(); }))
      return gpuactors::fail(gpuactors::Errc::cancelled, "the replica is stopped");
    std::vector<float> y;
    for (std::int64_t row = 0; row < batch.rows(); ++row) {
      float first = 0;
      std::memcpy(&first, x.data() + static_cast<std::size_t>(row * inputs) * sizeof(float), sizeof(first));
      y.insert(y.end(), static_cast<std::size_t>(outputs), first);
    }
    wire::ReplicaReply reply;
    reply.add_outputs()->assign(reinterpret_cast<const char*>(y.data()), y.size() * sizeof(float));
    return reply;
  }
};

GPUACTORS_ACTOR(gated_type, Gated, wire::ReplicaConfig)
    .method(describe_method, &Gated::describe)
    .method(infer_method, &Gated::infer);

} // namespace

// -- descriptions ---------------------------------------------------------------------------------

wire::ReplicaDescription digits_description() {
  nn::NetworkSpec spec;
  spec.sizes = {inputs, 16, outputs};
  return describe_network(spec);
}

ModelFacts digits_facts() {
  auto facts = must(read_facts(digits_description()));
  facts.name = "digits";
  facts.version = "1";
  facts.title = title_of("digits", "1");
  return facts;
}

// -- networks -------------------------------------------------------------------------------------

void write_checkpoint(const std::filesystem::path& path, std::uint64_t seed) {
  const auto context = open_host_device();
  nn::NetworkSpec spec;
  spec.sizes = {inputs, 16, outputs};
  auto network = must(nn::Network::make(context->stream(), spec, seed));
  must(nn::save_network(path, network));
}

void write_diverged_checkpoint(const std::filesystem::path& path) {
  const auto context = open_host_device();
  nn::NetworkSpec spec;
  spec.sizes = {inputs, 16, outputs};
  auto network = must(nn::Network::make(context->stream(), spec, 1));
  const std::vector<float> values(static_cast<std::size_t>(network.values().size()),
                                  std::numeric_limits<float>::quiet_NaN());
  must(context->stream().upload(network.values().raw(), values.data(), network.values().bytes()));
  must(nn::save_network(path, network));
}

std::vector<float> some_rows(std::int64_t rows, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::vector<float> x(static_cast<std::size_t>(rows * inputs));
  for (auto& value : x)
    value = static_cast<float>(random() % 1'000) / 500 - 1;
  return x;
}

std::vector<float> expected(const std::filesystem::path& path, const std::vector<float>& x) {
  const auto context = open_host_device();
  const auto rows = static_cast<std::int64_t>(x.size()) / inputs;
  auto network = must(nn::load_network(context->stream(), path, rows));
  const auto on_device = must(context->stream().tensor_from(x, {rows, inputs}));
  auto y = must(context->stream().tensor(gpuactors::DType::f32, {rows, outputs}));
  must(network.forward(on_device, y));
  return must(context->stream().to_host<float>(y));
}

// -- clients --------------------------------------------------------------------------------------

InferRequest request_for(const std::string& model, const std::vector<float>& x) {
  InferRequest request;
  request.model = model;
  request.id = "a";
  request.inputs.push_back({"x", DataType::fp32, {static_cast<std::int64_t>(x.size()) / inputs, inputs}, Bytes::of(x)});
  return request;
}

std::vector<float> values_of(const InferReply& reply) {
  const auto view = reply.outputs.at(0).data.view();
  std::vector<float> values(view.size() / sizeof(float));
  std::memcpy(values.data(), view.data(), view.size());
  return values;
}

Asked ask_async(Service& service, InferRequest request) {
  const auto promise = std::make_shared<gpuactors::Promise<InferReply>>();
  auto future = promise->future();
  auto ticket = service.infer(std::move(request), [promise](Result<InferReply> reply) {
    if (!promise->set(std::move(reply)))
      std::abort(); // answered twice
  });
  return {std::move(ticket), std::move(future)};
}

Result<InferReply> ask(Service& service, InferRequest request) {
  return ask_async(service, std::move(request)).reply.get();
}

// -- gate -----------------------------------------------------------------------------------------

Gate& gate() {
  static Gate instance{true};
  return instance;
}

// -- what a server does ---------------------------------------------------------------------------

std::function<void(const std::string&)> Notices::taker() {
  return [this](const std::string& line) {
    const std::lock_guard lock{mutex_};
    lines_.push_back(line);
  };
}

std::ptrdiff_t Notices::count(std::string_view words) const {
  const std::lock_guard lock{mutex_};
  return std::count_if(lines_.begin(), lines_.end(),
                       [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

std::vector<std::string> Notices::take() {
  const std::lock_guard lock{mutex_};
  return std::exchange(lines_, {});
}

std::set<std::string> names_of(gpuactors::Cluster& cluster, std::string_view state) {
  std::set<std::string> names;
  const auto now = must(cluster.state());
  for (const auto& actor : now.actors())
    if (actor.state() == state)
      names.insert(actor.name());
  return names;
}

// -- server ---------------------------------------------------------------------------------------

Server::Server(TableOptions options, const std::string& devices)
  : cluster(embed_devices(devices)), table(cluster, std::move(options)) {
  write_checkpoint(file(), 1);
}

void Server::serve(const std::string& keys) {
  const auto text = "digits=" + file().string() + (keys.empty() ? "" : "," + keys);
  must(table.add(must(parse_model(text, {}))));
  must(table.load("digits", {}));
}

} // namespace serve::test
