// Calls written down as a scenario that `gpuactors plan` runs.
#pragma once

#include <gpuactors/ledger/ledger.hpp>

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace history {

/// Requests are called r1, r2, ..., groups g1, g2, ...
class Scenario {
public:
  void submit(std::uint64_t id, const gpuactors::ResourceRequest& request, std::uint64_t parent);
  void submit_group(std::uint64_t id, const gpuactors::GroupRequest& group);
  void release(std::uint64_t id);
  void release_group(std::uint64_t id);
  void add_node(const gpuactors::NodeSpec& node);
  void set_types(const std::string& node, const std::optional<std::vector<std::string>>& types);
  void on_node(const char* action, const std::string& name);
  void fail_device(const std::string& node, int index, bool holders_stay);
  void set_quota(const std::string& owner, std::optional<gpuactors::Share> limit);
  void advance(int seconds);

  /// One step a line.
  std::string text() const;

private:
  using Json = nlohmann::ordered_json;

  void add(const char* action, Json value);

  std::vector<Json> steps_;
};

} // namespace history
