// NodeLog: the log of a node, with its files, sources and readers. Internal to the cluster layer.
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

/// The log of a node's workers. Any thread.
class NodeLog {
public:
  using Notice = std::function<void(std::string_view)>;

  /// @param folder empty means a folder with the node's name in the user's own state folder, with a number appended if
  ///        another node has that. If none can be used, the node runs without a log and says so.
  /// @returns `already_exists` when another node has the folder, `invalid_argument` when it cannot be written, and
  ///          other errors of `LogStore::open` and `LogReaders::make`; only if `folder` is not empty.
  static Result<std::shared_ptr<NodeLog>> open(std::string node, const std::string& folder, const Notice& notice);

  void append(const WorkerLine& line);

  /// Reads the log, for the agent; null if there is no log.
  [[nodiscard]] std::function<void(const LogQuery&, LogReaders::Done)> reader() const;

  [[nodiscard]] const std::shared_ptr<LogSources>& sources() const noexcept {
    return sources_;
  }

private:
  explicit NodeLog(std::string node);

  Result<void> open(const std::filesystem::path& folder, const Notice& notice);

  std::string node_;
  std::shared_ptr<LogSources> sources_ = std::make_shared<LogSources>();
  /// Shared with the agent, which may read while the node ends. The readers are destroyed first, since they use the
  /// store.
  struct Parts {
    std::unique_ptr<LogStore> store;
    std::unique_ptr<LogReaders> readers;
  };
  std::shared_ptr<Parts> parts_;
};

/// The user's own folder for the log of a node: $XDG_STATE_HOME/gpuactors/logs/NODE or
/// ~/.local/state/gpuactors/logs/NODE. Characters of the node's name other than letters, digits, "-", "_" and "."
/// become underscores.
/// @returns `not_found` when the user has no home folder.
[[nodiscard]] Result<std::filesystem::path> default_log_folder(const std::string& node);

} // namespace gpuactors::detail
