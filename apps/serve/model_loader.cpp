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

bool ModelLoader::wait_for(Duration most) const {
  return outcome_.wait_for(most) == std::future_status::ready;
}

Result<std::size_t> ModelLoader::outcome() {
  return outcome_.get();
}

void ModelLoader::run() {
  promise_.set_value(try_each(true));
  if (!options_.keeps_going)
    return;
  for (Duration time = shortest_pause; !models_.empty() && pause(time);
       time = std::min<Duration>(2 * time, longest_pause))
    (void)try_each(false); // the table says what becomes of each
}

Result<std::size_t> ModelLoader::try_each(bool first_round) {
  const auto round = std::exchange(models_, {});
  for (const auto& name : round) {
    // A client may have loaded it, and taken the room, or wants it no more.
    const auto tried = table_.is_missing(name);
    const auto done = tried ? table_.load(name, {}) : Result<void>{};
    if (const auto serves = table_.model_ready(name, ""); (tried && done) || (serves && *serves)) {
      options_.loaded(name);
      continue;
    }
    if (!done && !options_.keeps_going)
      return gpuactors::fail(done.error());
    if (!table_.is_missing(name)) // it was unloaded again, or the server ends
      continue;
    if (!done && first_round)
      options_.failed(done.error().message());
    models_.push_back(name);
  }
  return models_.size();
}

bool ModelLoader::pause(Duration time) {
  std::unique_lock lock{mutex_};
  return !wake_.wait_for(lock, time, [this] { return stopping_; });
}

} // namespace serve
