#include "models_file.hpp"

#include "memory_file.hpp"

#include <gpuactors/base/suggest.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace serve {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

using FileJson = nlohmann::ordered_json;

constexpr auto models_key = "models";
constexpr auto file_key = "file";
constexpr auto canary_key = "canary";
constexpr auto share_key = "share";
/// What nobody writes by hand.
constexpr std::size_t longest_file = std::size_t{1} << 20;

template <class... Args>
gpuactors::Failure wrong_at(std::string_view place, fmt::format_string<Args...> format, Args&&... args) {
  return gpuactors::fail(Errc::invalid_argument,
                         fmt::format("{}: {}", place, fmt::format(format, std::forward<Args>(args)...)));
}

/// Finds a key that an object has twice, of which the parser would take the last one.
class TwiceFinder {
public:
  bool operator()(int /*depth*/, FileJson::parse_event_t event, const FileJson& value) {
    if (event == FileJson::parse_event_t::object_start)
      open_.emplace_back();
    else if (event == FileJson::parse_event_t::object_end)
      open_.pop_back();
    else if (event == FileJson::parse_event_t::key && !open_.back().insert(value.get<std::string>()).second && !twice)
      twice = value.get<std::string>();
    return true;
  }

  std::optional<std::string> twice;

private:
  std::vector<std::set<std::string>> open_;
};

Result<FileJson> parse_file(std::string_view text) {
  TwiceFinder finder;
  FileJson json;
  try {
    json = FileJson::parse(text, [&finder](int depth, FileJson::parse_event_t event, FileJson& value) {
      return finder(depth, event, value);
    });
  } catch (const FileJson::exception& error) {
    // Without the name of the exception, which comes first, in brackets.
    const std::string_view what = error.what();
    const auto end = what.find("] ");
    return gpuactors::fail(Errc::invalid_argument,
                           std::string{end == std::string_view::npos ? what : what.substr(end + 2)});
  }
  if (finder.twice)
    return gpuactors::fail(Errc::invalid_argument, fmt::format("the key \"{}\" is there twice", *finder.twice));
  return json;
}

/// The text that the command line would have.
Result<std::string> text_of(const FileJson& value, const std::string& place) {
  if (value.is_string())
    return value.get<std::string>();
  if (value.is_number() || value.is_boolean())
    return value.dump();
  return wrong_at(place, "a text or a number is expected, and it is an {}", value.type_name());
}

/// Sets what one key of a model says; of those that may be repeated, an object says all.
Result<void> set_from_json(ModelConfig& config, const ModelKey& key, const FileJson& value, const std::string& place) {
  if (!key.repeats) {
    GPUACTORS_LET(text, text_of(value, place));
    if (auto set = set_key(config, key.name, text); !set)
      return wrong_at(place, "{}", set.error().message());
    return {};
  }
  if (!value.is_object())
    return wrong_at(place, "an object of names and values is expected, such as {{\"NAME\": \"VALUE\"}}");
  for (const auto& [name, element] : value.items()) {
    GPUACTORS_LET(text, text_of(element, fmt::format("{}.{}", place, name)));
    if (auto set = set_key(config, key.name, fmt::format("{}={}", name, text)); !set)
      return wrong_at(place, "{}", set.error().message());
  }
  return {};
}

/// What a model's object says, of which some keys are not settings.
Result<void> set_all(ModelConfig& config, const FileJson& json, const std::string& place,
                     const std::filesystem::path& folder, std::string_view more_key) {
  if (!json.is_object())
    return wrong_at(place, "an object is expected, such as {{\"file\": \"checkpoint.safetensors\"}}");
  const auto keys = model_keys();
  for (const auto& [name, value] : json.items()) {
    const auto here = fmt::format("{}.{}", place, name);
    if (name == more_key)
      continue;
    if (name == file_key) {
      GPUACTORS_LET(file, text_of(value, here));
      config.file = file.empty() ? file : (folder / file).string();
      continue;
    }
    const auto key =
        std::find_if(keys.begin(), keys.end(), [&name = name](const auto& one) { return one.name == name; });
    if (key == keys.end()) {
      std::vector<std::string> known{file_key, std::string{more_key}};
      for (const auto& one : keys)
        known.emplace_back(one.name);
      return wrong_at(place, "there is no key \"{}\"{}", name, gpuactors::did_you_mean(name, known));
    }
    GPUACTORS_TRY(set_from_json(config, *key, value, here));
  }
  if (config.file.empty() && config.actor.empty())
    return wrong_at(place, "\"file\" is expected, the checkpoint of a network, or \"actor\", an actor type");
  if (auto fits = check(config); !fits)
    return wrong_at(place, "{}", fits.error().message());
  return {};
}

Result<ModelEntry> read_entry(ModelConfig config, const FileJson& json, const std::string& place,
                              const std::filesystem::path& folder) {
  GPUACTORS_TRY(set_all(config, json, place, folder, canary_key));
  ModelEntry entry{std::move(config), std::nullopt};
  const auto found = json.find(canary_key);
  if (found == json.end())
    return entry;
  const auto here = fmt::format("{}.{}", place, canary_key);
  CanaryConfig canary{entry.config, 0};
  GPUACTORS_TRY(set_all(canary.config, *found, here, folder, share_key));
  const auto share = found->find(share_key);
  if (share == found->end() || !share->is_number() || share->get<double>() < 0 || share->get<double>() > 1)
    return wrong_at(here, "\"share\" is expected, the part of the requests that it gets: a number from 0 to 1");
  canary.share = share->get<double>();
  entry.canary = std::move(canary);
  return entry;
}

} // namespace

Result<std::vector<ModelEntry>> ModelsFile::parse(std::string_view text) const {
  GPUACTORS_LET(json, parse_file(text));
  constexpr auto form = R"({"models": {"NAME": {"file": "checkpoint.safetensors"}}})";
  if (!json.is_object() || !json.contains(models_key) || !json.at(models_key).is_object())
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{} is expected", form));
  for (const auto& [name, value] : json.items())
    if (name != models_key)
      return gpuactors::fail(Errc::invalid_argument, fmt::format("there is no key \"{}\": {} is expected", name, form));
  std::vector<ModelEntry> models;
  for (const auto& [name, value] : json.at(models_key).items()) {
    const auto place = fmt::format("{}.{}", models_key, name);
    if (auto fits = check_name(name); !fits)
      return wrong_at(place, "{}", fits.error().message());
    if (taken.contains(name))
      return wrong_at(place, "there are two models named \"{}\": the command line names one, too", name);
    auto config = defaults;
    config.name = name;
    GPUACTORS_LET(entry, read_entry(std::move(config), value, place, path.parent_path()));
    models.push_back(std::move(entry));
  }
  return models;
}

Result<std::vector<ModelEntry>> ModelsFile::read() const {
  GPUACTORS_LET(copy, MemoryFile::copy_of(path.string(), longest_file));
  GPUACTORS_LET(bytes, copy.bytes());
  auto models = parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!models)
    return wrong_at(path.string(), "{}", models.error().message());
  return models;
}

ModelChanges changes_between(const std::vector<ModelEntry>& before, const std::vector<ModelEntry>& after) {
  ModelChanges changes;
  const auto find = [](const std::vector<ModelEntry>& models, const std::string& name) {
    return std::find_if(models.begin(), models.end(), [&](const auto& one) { return one.config.name == name; });
  };
  for (const auto& model : after)
    if (const auto old = find(before, model.config.name); old == before.end() || *old != model)
      changes.set.push_back(model);
  for (const auto& model : before)
    if (find(after, model.config.name) == after.end())
      changes.gone.push_back(model.config.name);
  return changes;
}

} // namespace serve
