// Loads the models of the command line and the models file, and tries those again that cannot be loaded yet.
#pragma once

#include "model_table.hpp"
#include "models_file.hpp"

#include <gpuactors/gpuactors.hpp>

#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace serve {

struct LoaderOptions {
  /// Whether a model that cannot be loaded leaves the others to be loaded, and is tried again. Else it ends the round.
  bool keeps_going = false;
  /// Told of each model that serves, once for each version, and, of those that are tried again, each time why they, or
  /// their canaries, do not.
  std::function<void(const std::string& model)> loaded;
  std::function<void(const std::string& sentence)> failed;
};

/// Loads models one after the other, on a thread of its own.
class ModelLoader {
public:
  /// Begins. The models are in the table, which must outlive the loader.
  /// @returns `unavailable` without a thread.
  static gpuactors::Result<std::unique_ptr<ModelLoader>> start(ModelTable& table, std::vector<std::string> models,
                                                               LoaderOptions options);

  ModelLoader(const ModelLoader&) = delete;
  ModelLoader& operator=(const ModelLoader&) = delete;
  /// Waits for the model that is being loaded: the table, closed first, gives it up.
  ~ModelLoader();

  /// The models file says something else: unloads what is gone, and loads what is new or has changed, behind what is
  /// being done; shares of canaries change now. Returns at once; any thread.
  void change(ModelChanges changes);

  /// Waits until each model was tried once, at most so long. @returns whether it was.
  [[nodiscard]] bool wait_for(gpuactors::Duration most) const;

  /// Returns how many models do not serve after that, with `keeps_going`; else why one cannot be loaded. Once.
  gpuactors::Result<std::size_t> outcome();

private:
  ModelLoader(ModelTable& table, std::vector<std::string> models, LoaderOptions options);

  void run();
  gpuactors::Result<std::size_t> try_each();
  /// Waits for the next round: for the time, if there is a model to be tried again, or for a change.
  /// @returns false at the end.
  bool pause(gpuactors::Duration time);
  /// A model that serves, for those who were not told of its version.
  void tell_of(const std::string& model);
  /// Does what changes say, but for loading. @returns whether there were any.
  bool take_changes();

  ModelTable& table_;
  /// Those that are still to be loaded.
  std::vector<std::string> models_;
  /// The versions that were told of.
  std::map<std::string, std::string> told_;
  const LoaderOptions options_;
  std::promise<gpuactors::Result<std::size_t>> promise_;
  std::future<gpuactors::Result<std::size_t>> outcome_;
  std::mutex mutex_;
  std::condition_variable wake_;
  /// What the models file says of one name; no entry: it is gone.
  struct Change {
    std::string name;
    std::optional<ModelEntry> entry;
  };
  // Guarded by the mutex.
  /// The newest of each name, in the order in which they came.
  std::vector<Change> changes_;
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace serve
