// Reading and writing files of compiled kernels.
#include <gpuactors/device/cuda/code_cache.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

namespace gpuactors::cuda {

namespace {

constexpr std::string_view magic = "gpuactors kernel 1\n";
constexpr std::size_t name_digits = 16;

/// FNV-1a: names files and notices damage; what a file is for is compared word for word.
std::uint64_t digest_of(std::string_view text) {
  std::uint64_t digest = 0xcbf29ce484222325ULL;
  for (const auto character : text)
    digest = (digest ^ static_cast<unsigned char>(character)) * 0x100000001b3ULL;
  return digest;
}

/// A text with its length before it, so that two texts never look like two others.
void append(std::string& out, std::string_view text) {
  out += fmt::format("{}:", text.size());
  out += text;
}

std::optional<std::string> read_text(std::istream& in) {
  std::size_t size = 0;
  char colon = 0;
  constexpr std::size_t most = std::size_t{256} << 20;
  if (!(in >> size) || !in.get(colon) || colon != ':' || size > most)
    return std::nullopt;
  std::string text(size, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size)))
    return std::nullopt;
  return text;
}

std::optional<KernelCode> read_file(const std::filesystem::path& path, const std::string& key) {
  std::ifstream in{path, std::ios::binary};
  std::string head(magic.size(), '\0');
  if (!in.read(head.data(), static_cast<std::streamsize>(head.size())) || head != magic || read_text(in) != key)
    return std::nullopt;
  auto entry = read_text(in);
  auto code = read_text(in);
  const auto digest = read_text(in);
  if (!entry || !code || !digest || *digest != fmt::format("{:016x}", digest_of(*entry + *code)))
    return std::nullopt;
  return KernelCode{std::move(*entry), std::move(*code)};
}

/// It only costs the next process a compilation when this fails, so it is not reported.
void write_file(const std::filesystem::path& path, const std::string& key, const KernelCode& code) {
  static std::atomic<int> number{0};
  std::error_code error;
  const auto folder = path.parent_path();
  if (std::filesystem::create_directories(folder, error))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  if (error)
    return;
  std::string text{magic};
  append(text, key);
  append(text, code.entry);
  append(text, code.code);
  append(text, fmt::format("{:016x}", digest_of(code.entry + code.code)));
  // Under another name first: whoever reads sees all of it or nothing.
  auto unfinished = path;
  unfinished += fmt::format(".{}-{}", getpid(), ++number);
  std::ofstream out{unfinished, std::ios::binary};
  out << text;
  out.close();
  if (out)
    std::filesystem::rename(unfinished, path, error);
  if (!out || error)
    std::filesystem::remove(unfinished, error);
}

/// Whether it is one of ours, whole or unfinished: the folder may be anybody's.
bool is_kernel_file(const std::filesystem::path& path) {
  const auto name = path.filename().string();
  const auto hex = name.find_first_not_of("0123456789abcdef");
  return (name.size() == name_digits && hex == std::string::npos) || (hex == name_digits && name[hex] == '.');
}

/// As it is with writing: what cannot be removed is not reported.
void remove_oldest_files(const std::filesystem::path& folder, std::size_t most) {
  std::error_code error;
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> files;
  for (std::filesystem::directory_iterator entry{folder, error}, end; !error && entry != end; entry.increment(error))
    if (is_kernel_file(entry->path()))
      files.emplace_back(entry->last_write_time(error), entry->path());
  if (files.size() <= most)
    return;
  // A part of them at once, so that not each file that is written costs one.
  std::sort(files.begin(), files.end());
  files.resize(files.size() - (most - most / 8));
  for (const auto& [time, path] : files)
    std::filesystem::remove(path, error);
}

/// Whether files may decide what the code is. Rather too often than not: a word in a comment only costs a compilation.
bool may_read_files(const KernelSource& source) {
  std::string joined;
  std::string_view text = source.source;
  // A line may be broken anywhere, also in the middle of a directive.
  for (const std::string_view broken : {"\\\n", "\\\r\n"})
    if (text.find(broken) != text.npos) {
      std::string whole{text};
      for (auto at = whole.find(broken); at != whole.npos; at = whole.find(broken, at))
        whole.erase(at, broken.size());
      text = joined = std::move(whole);
    }
  const auto has = [](std::string_view where, std::string_view word) { return where.find(word) != where.npos; };
  return has(text, "include") || has(text, "import")
         || std::any_of(source.options.begin(), source.options.end(), [&](std::string_view option) {
              return has(option, "include") || has(option, "-I") || has(option, "file") || has(option, "-optf")
                     || has(option, "pch");
            });
}

} // namespace

std::filesystem::path CodeCache::default_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path{value != nullptr ? value : ""};
  };
  if (std::getenv("GPUACTORS_KERNEL_CACHE") != nullptr)
    return variable("GPUACTORS_KERNEL_CACHE");
  if (const auto caches = variable("XDG_CACHE_HOME"); caches.is_absolute())
    return caches / "gpuactors/kernels";
  if (const auto home = variable("HOME"); home.is_absolute())
    return home / ".cache/gpuactors/kernels";
  return {};
}

Result<std::shared_ptr<const KernelCode>> CodeCache::find(const KernelSource& source, const std::string& architecture,
                                                          const std::string& version,
                                                          const std::function<Result<KernelCode>()>& compile) {
  // Nobody tells what was included, so nobody can say whether it has changed.
  if (may_read_files(source)) {
    GPUACTORS_LET(compiled, compile());
    return std::make_shared<const KernelCode>(std::move(compiled));
  }
  std::string key;
  append(key, version);
  append(key, architecture);
  append(key, source.name);
  for (const auto& option : source.options)
    append(key, option);
  append(key, source.source);
  {
    const std::lock_guard guard{mutex_};
    if (const auto known = known_.find(key); known != known_.end()) {
      known->second.turn = ++turn_;
      return known->second.code;
    }
  }
  const auto path = folder_.empty() ? folder_ : folder_ / fmt::format("{:016x}", digest_of(key));
  auto code = path.empty() ? std::nullopt : read_file(path, key);
  if (!code) {
    GPUACTORS_LET(compiled, compile());
    code = std::move(compiled);
    if (!path.empty()) {
      write_file(path, key, *code);
      remove_oldest_files(folder_, bounds_.files);
    }
  }
  auto kept = std::make_shared<const KernelCode>(std::move(*code));
  keep(std::move(key), kept);
  return kept;
}

void CodeCache::keep(std::string key, std::shared_ptr<const KernelCode> code) {
  const auto size = [](const auto& entry) {
    return entry.first.size() + entry.second.code->entry.size() + entry.second.code->code.size();
  };
  const std::lock_guard guard{mutex_};
  const auto [added, is_new] = known_.emplace(std::move(key), Known{std::move(code), ++turn_});
  if (is_new)
    bytes_ += size(*added);
  while (bytes_ > bounds_.bytes) {
    const auto oldest = std::min_element(known_.begin(), known_.end(),
                                         [](const auto& a, const auto& b) { return a.second.turn < b.second.turn; });
    bytes_ -= size(*oldest);
    known_.erase(oldest);
  }
}

} // namespace gpuactors::cuda
