#include "model_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace serve {

using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// Pauses between the rounds of models that cannot be loaded: the first, and the longest.
constexpr std::chrono::seconds shortest_pause{1};
constexpr std::chrono::seconds longest_pause{60};

} // namespace

ModelLoader::ModelLoader(ModelTable& table, std::vector<std::string> models, LoaderOptions options)
  : table_(table), models_(std::move(models)), options_(std::move(options)), outcome_(promise_.get_future()) {
  // nop
}

Result<std::unique_ptr<ModelLoader>> ModelLoader::start(ModelTable& table, std::vector<std::string> models,
                                                        LoaderOptions options) {
  std::unique_ptr<ModelLoader> loader{new ModelLoader{table, std::move(models), std::move(options)}};
  try {
    loader->thread_ = std::thread{[self = loader.get()] { self->run(); }};
  } catch (const std::system_error& error) {
    return gpuactors::fail(Errc::unavailable, fmt::format("there is no thread to load the models: {}", error.what()));
  }
  return loader;
}

ModelLoader::~ModelLoader() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void ModelLoader::change(ModelChanges changes) {
  for (const auto& model : changes.set)
    table_.set(model);
  {
    const std::lock_guard lock{mutex_};
    changes_.push_back(std::move(changes));
  }
  wake_.notify_all();
}

bool ModelLoader::wait_for(Duration most) const {
  return outcome_.wait_for(most) == std::future_status::ready;
}

Result<std::size_t> ModelLoader::outcome() {
  return outcome_.get();
}

void ModelLoader::run() {
  promise_.set_value(try_each());
  if (!options_.keeps_going)
    return;
  for (Duration time = shortest_pause; pause(time);) {
    time = take_changes() ? shortest_pause : std::min<Duration>(2 * time, longest_pause);
    (void)try_each(); // who is told of each knows what becomes of it
  }
}

Result<std::size_t> ModelLoader::try_each() {
  const auto round = std::exchange(models_, {});
  for (const auto& name : round) {
    // A client may have loaded it, and taken the room, or wants it no more.
    const auto done = table_.is_missing(name) ? table_.settle(name) : Result<void>{};
    if (!done && !options_.keeps_going)
      return gpuactors::fail(done.error());
    if (!table_.is_missing(name)) { // it serves, it was unloaded again, or the server ends
      if (const auto serves = table_.model_ready(name, ""); serves && *serves)
        options_.loaded(name);
      continue;
    }
    if (!done)
      options_.failed(done.error().message());
    models_.push_back(name);
  }
  return models_.size();
}

bool ModelLoader::pause(Duration time) {
  std::unique_lock lock{mutex_};
  const auto woken = [this] { return stopping_ || !changes_.empty(); };
  if (models_.empty())
    wake_.wait(lock, woken);
  else
    wake_.wait_for(lock, time, woken);
  return !stopping_;
}

bool ModelLoader::take_changes() {
  std::deque<ModelChanges> changes;
  {
    const std::lock_guard lock{mutex_};
    changes.swap(changes_);
  }
  for (const auto& change : changes) {
    // First, since they have room that others may need.
    for (const auto& name : change.gone) {
      std::erase(models_, name);
      (void)table_.remove(name); // unless the server ends
    }
    for (const auto& model : change.set) {
      table_.set(model); // it may have been gone in between
      const auto& name = model.config.name;
      if (table_.is_missing(name) && std::find(models_.begin(), models_.end(), name) == models_.end())
        models_.push_back(name);
    }
  }
  return !changes.empty();
}

} // namespace serve
