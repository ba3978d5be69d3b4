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
  {
    const std::lock_guard lock{mutex_};
    // Of what was not done yet, only the newest counts: what the file said before would undo it.
    const auto put = [this](Change change) {
      std::erase_if(changes_, [&change](const Change& other) { return other.name == change.name; });
      changes_.push_back(std::move(change));
    };
    for (auto& name : changes.gone)
      put({std::move(name), std::nullopt});
    for (auto& model : changes.set) {
      // With the mutex, so that a removal that is going on sees it: see `take_changes`.
      table_.set(model);
      auto name = model.config.name;
      put({std::move(name), std::move(model)});
    }
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
  std::size_t without = 0;
  for (const auto& name : round) {
    // A client may have loaded it, and taken the room, or wants it no more.
    const auto done = table_.is_missing(name) ? table_.settle(name) : Result<void>{};
    if (!done && !options_.keeps_going)
      return gpuactors::fail(done.error());
    const auto ready = table_.model_ready(name, "");
    const auto serves = ready && *ready;
    if (serves)
      tell_of(name);
    if (!table_.is_missing(name)) // it is as it should be, it was unloaded again, or the server ends
      continue;
    if (!done)
      options_.failed(done.error().message());
    without += serves ? 0 : 1; // it may only be without its canary
    models_.push_back(name);
  }
  return without;
}

void ModelLoader::tell_of(const std::string& name) {
  const auto what = table_.describe(name, "");
  if (what && std::exchange(told_[name], what->versions.back()) != what->versions.back())
    options_.loaded(name);
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
  std::unique_lock lock{mutex_};
  const auto any = !changes_.empty();
  const auto find_gone = [this] {
    return std::find_if(changes_.begin(), changes_.end(), [](const Change& change) { return !change.entry; });
  };
  // First, since they have room that others may need.
  for (auto gone = find_gone(); gone != changes_.end(); gone = find_gone()) {
    const auto name = gone->name;
    changes_.erase(gone);
    lock.unlock();
    std::erase(models_, name);
    told_.erase(name);
    (void)table_.remove(name); // unless the server ends
    lock.lock();
    // One that has come back in the meantime may have gone with the removal.
    for (const auto& change : changes_)
      if (change.name == name && change.entry)
        table_.set(*change.entry);
  }
  const auto changes = std::exchange(changes_, {});
  lock.unlock();
  for (const auto& [name, entry] : changes)
    if (table_.is_missing(name) && std::find(models_.begin(), models_.end(), name) == models_.end())
      models_.push_back(name);
  return any;
}

} // namespace serve
