// The log of a node: where it lies, what its workers write into it, who reads it. Internal to the cluster layer.
#pragma once

#include <gpuactors/agent/log_readers.hpp>
#include <gpuactors/agent/log_sources.hpp>
#include <gpuactors/agent/log_store.hpp>
#include <gpuactors/cluster/detail/launcher.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace gpuactors::detail {

/// Any thread.
class NodeLog {
public:
  using Notice = std::function<void(std::string_view)>;

  /// @param folder empty means one by the node's name in the user's own state folder: one more of that name when
  ///        another node has it. A node that can have none goes on without a log, and says so.
  /// @returns `already_exists` when another node has the folder, `invalid_argument` when it cannot be written; both
  ///          only for a folder that was named.
  static Result<std::shared_ptr<NodeLog>> open(std::string node, const std::string& folder, const Notice& notice);

  void append(const WorkerLine& line);

  /// Null when there is no log.
  [[nodiscard]] std::function<void(const LogQuery&, LogReaders::Done)> reader() const;

  [[nodiscard]] const std::shared_ptr<LogSources>& sources() const noexcept {
    return sources_;
  }

private:
  explicit NodeLog(std::string node);

  Result<void> open(const std::filesystem::path& folder, const Notice& notice);

  std::string node_;
  std::shared_ptr<LogSources> sources_ = std::make_shared<LogSources>();
  /// What the agent holds as well, as it may ask while the node ends. The readers end first: they use the store.
  struct Parts {
    std::unique_ptr<LogStore> store;
    std::unique_ptr<LogReaders> readers;
  };
  std::shared_ptr<Parts> parts_;
};

/// The user's own folder for the log of a node, $XDG_STATE_HOME/gpuactors/logs/NODE or
/// ~/.local/state/gpuactors/logs/NODE: what a file name cannot have is an underscore there.
/// @returns `not_found` when the user has no home.
[[nodiscard]] Result<std::filesystem::path> default_log_folder(const std::string& node);

} // namespace gpuactors::detail
