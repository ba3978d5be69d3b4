// What the tests of models share: checkpoints of small networks, a cluster to serve them, and clients.
#pragma once

#include <apps/serve/models/model_table.hpp>
#include <apps/serve/models/replica.hpp>
#include <support/gate.hpp>
#include <support/results.hpp>
#include <support/temporary_folder.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace serve::test {

using gpuactors::test::code_of;
using gpuactors::test::Gate;
using gpuactors::test::must;
using gpuactors::test::says;

inline constexpr std::int64_t inputs = 8;
inline constexpr std::int64_t outputs = 3;

/// What a replica with such a network says of itself, and what the server makes of it.
wire::ReplicaDescription digits_description();
ModelFacts digits_facts();

/// Writes a network of 8 inputs and 3 outputs with parameters of its own for each seed.
void write_checkpoint(const std::filesystem::path& path, std::uint64_t seed);

/// Writes one whose training has diverged: its parameters are no numbers.
void write_diverged_checkpoint(const std::filesystem::path& path);

/// So many rows of inputs, other ones for each seed.
std::vector<float> some_rows(std::int64_t rows, std::uint64_t seed);

/// What the network in a file answers, computed in this program.
std::vector<float> expected(const std::filesystem::path& path, const std::vector<float>& x);

InferRequest request_for(const std::string& model, const std::vector<float>& x);

/// The elements of the one output.
std::vector<float> values_of(const InferReply& reply);

/// Asks and waits.
gpuactors::Result<InferReply> ask(Service& service, InferRequest request);

/// A promise as the end of a request.
struct Asked {
  std::shared_ptr<Service::Ticket> ticket;
  gpuactors::Future<InferReply> reply;
};
Asked ask_async(Service& service, InferRequest request);

/// Holds the batches of replicas of type "test/gated" until the test lets them go.
Gate& gate();

/// The gate is closed during a test, and open before and after it.
struct ClosedGate {
  ClosedGate() {
    gate().close();
  }
  ~ClosedGate() {
    gate().open();
  }
};

/// The type of a replica whose batches go through the gate, unless all their rows are zeros; it answers each row's
/// first element. The key is for `Server::serve`.
inline constexpr auto gated_type = "test/gated";
inline const std::string gated_key = "actor=test/gated,";

/// What a server notes, on any of its threads; it is there longer than the server.
class Notices {
public:
  /// For `TableOptions::notice`.
  std::function<void(const std::string&)> taker();

  /// How many have these words.
  [[nodiscard]] std::ptrdiff_t count(std::string_view words) const;

  /// All of them since the last time.
  std::vector<std::string> take();

private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// Names of the actors in a state.
std::set<std::string> names_of(gpuactors::Cluster& cluster, std::string_view state = "alive");

/// A cluster in this process with a file of a network, and a table of models on it.
class Server {
public:
  explicit Server(TableOptions options = {}, const std::string& devices = "host:2x64MiB");

  /// Serves a model "digits" of the file with these keys: "replicas=2,max-batch=4".
  void serve(const std::string& keys = "");

  [[nodiscard]] std::filesystem::path file() const {
    return folder / "checkpoint.safetensors";
  }

  gpuactors::test::TemporaryFolder folder;
  gpuactors::Cluster cluster;
  ModelTable table;
};

} // namespace serve::test
