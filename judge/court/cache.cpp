#include "judge/court/cache.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <system_error>
#include <type_traits>

#include "files/descriptor.hpp"
#include "files/new_file.hpp"
#include "judge/sigma/model.hpp"
#include "language/room.hpp"
#include "reference/core/error.hpp"
#include "reference/core/parse_number.hpp"
#include "reference/core/problem_digest.hpp"
#include "reference/core/sha256.hpp"

namespace assay {
namespace {

constexpr std::size_t digest_length = 64;
constexpr std::string_view suffix = ".kept";

std::int64_t nanoseconds(const timespec& t) { return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; }

std::filesystem::path cache_folder() {
  const auto absolute = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && value[0] == '/' ? std::filesystem::path(value) : std::filesystem::path();
  };
  if (const auto own = absolute("XDG_CACHE_HOME"); !own.empty()) return own / "assay";
  if (const auto home = absolute("HOME"); !home.empty()) return home / ".cache" / "assay";
  return {};
}

std::uintmax_t bound_of_setting() {
  constexpr std::uintmax_t megabyte = 1'000'000, most = 1'000'000'000;
  const char* said = std::getenv("ASSAY_CACHE_MB");
  if (said == nullptr || *said == '\0') return cache_bound;
  const auto megabytes = parse_number<std::uintmax_t>(said);
  require(megabytes && *megabytes <= most, "ASSAY_CACHE_MB: expected a number of megabytes, such as 4000, got '", said,
          "'");
  return *megabytes * megabyte;
}

/// The build id of a file that is loaded: a digest of its contents, which the linker makes. "" where it has none.
std::string build_id(const dl_phdr_info& object) {
  constexpr std::size_t align = 4;
  const auto padded = [](std::size_t size) { return (size + align - 1) / align * align; };
  for (std::size_t i = 0; i < object.dlpi_phnum; ++i) {
    const auto& part = object.dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader tells addresses as numbers
    std::string_view notes(reinterpret_cast<const char*>(object.dlpi_addr + part.p_vaddr), part.p_memsz);
    ElfW(Nhdr) note{};
    while (notes.size() >= sizeof note) {
      std::memcpy(&note, notes.data(), sizeof note);
      const std::size_t name = sizeof note, text = name + padded(note.n_namesz), end = text + padded(note.n_descsz);
      if (end > notes.size()) break;
      if (note.n_type == NT_GNU_BUILD_ID && notes.substr(name, 3) == "GNU")
        return std::string(notes.substr(text, note.n_descsz));
      notes.remove_prefix(end);
    }
  }
  return "";
}

/// Whether this code is in that file, or a library that computes for it. In Python's process there are others, which
/// come and go with what is imported.
bool computes_for_us(const dl_phdr_info& object) {
  const auto here = reinterpret_cast<ElfW(Addr)>(&build_id);
  for (std::size_t i = 0; i < object.dlpi_phnum; ++i) {
    const auto& part = object.dlpi_phdr[i];
    const ElfW(Addr) begin = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && begin <= here && here < begin + part.p_memsz) return true;
  }
  const std::string name = std::filesystem::path(object.dlpi_name).filename();
  constexpr std::string_view libraries[] = {"libc.",    "libm.",  "libstdc++", "libfmt",
                                            "libflint", "libarb", "libmpfr",   "libgmp"};
  return std::ranges::any_of(libraries, [&](std::string_view library) { return name.starts_with(library); });
}

/// The build ids of this program, or of Python's module, and of the libraries that compute for it: whatever is built
/// anew reads nothing that was kept before. "" where something has none. In Python's process the order in which they
/// were loaded depends on what else is imported.
std::string program_identity() {
  std::set<std::string> ids;
  const auto add = [](dl_phdr_info* object, std::size_t, void* list) {
    if (!computes_for_us(*object)) return 0;
    std::string id = build_id(*object);
    const bool none = id.empty();
    static_cast<std::set<std::string>*>(list)->insert(std::move(id));
    return none ? 1 : 0;
  };
  if (::dl_iterate_phdr(add, &ids) != 0) return "";
  std::string all;
  for (const std::string& id : ids) all += fmt::format("{} {} ", id.size(), id);
  return all;
}

bool is_ours(const struct stat& s) { return s.st_uid == ::geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0; }

/// The folder, made if it can be, with those above it; whether it is ours alone.
bool make_folder(const std::filesystem::path& folder) {
  std::filesystem::path part;
  for (const std::filesystem::path& name : folder) {
    part /= name;
    if (::mkdir(part.c_str(), S_IRWXU) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES) return false;
  }
  struct stat s {};
  return ::lstat(folder.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && is_ours(s);
}

}  // namespace

Cache::Cache() : Cache(cache_folder(), bound_of_setting()) {}

Cache::Cache(std::filesystem::path folder, std::uintmax_t bound)
    : folder_(std::move(folder)), bound_(bound), program_(program_identity()) {
  timespec now{};
  // The clock that files are stamped by.
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  made_ = nanoseconds(now);
  if (program_.empty() || folder_.empty() || !make_folder(folder_)) folder_.clear();
}

std::filesystem::path Cache::file_of(const std::string& what) const {
  return folder_ / (Sha256().update(program_).update("\n").update(what).hex() + std::string(suffix));
}

std::optional<std::string> Cache::find(const std::string& what) {
  ++misses_;
  if (folder_.empty()) return std::nullopt;
  const std::filesystem::path path = file_of(what);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat s {};
  if (file.get() < 0 || ::fstat(file.get(), &s) != 0 || !S_ISREG(s.st_mode) || !is_ours(s)) return std::nullopt;
  const auto size = static_cast<std::uintmax_t>(s.st_size);
  if (nanoseconds(s.st_ctim) >= made_ || size < digest_length || size > bound_) return std::nullopt;
  std::string bytes(size, '\0');
  if (!file.read(bytes)) return std::nullopt;
  const std::string digest = bytes.substr(size - digest_length);
  bytes.resize(size - digest_length);
  if (Sha256().update(what).update(bytes).hex() != digest) return std::nullopt;
  --misses_, ++hits_;
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);  // used last goes last
  return bytes;
}

void Cache::keep(const std::string& what, std::string_view bytes) {
  if (folder_.empty() || bytes.size() + digest_length > bound_) return;
  const std::filesystem::path path = file_of(what);
  try {
    NewFile file(path, NewFile::Access::owner);
    file.stream() << bytes << Sha256().update(what).update(bytes).hex();
    file.commit();
  } catch (const InputError&) {  // a full or read-only disk: the next time it is computed again
    return;
  }
  if (is_turn_to_trim(path, bytes.size())) trim();
}

// Listing a full folder takes half a second, many times a small check: it is done for about every 1,024th of the bound
// that is stored. A file's name is a digest, so its first digits are a random number.
bool Cache::is_turn_to_trim(const std::filesystem::path& path, std::size_t size) const {
  constexpr double parts = 1024;
  const double chance = static_cast<double>(std::stoul(path.filename().string().substr(0, 8), nullptr, 16)) * 0x1p-32;
  return chance * static_cast<double>(bound_) < parts * static_cast<double>(size);
}

void Cache::trim() {
  struct Known {
    std::filesystem::path path;
    std::int64_t used;
    std::uintmax_t size;
  };
  std::vector<Known> files;
  std::uintmax_t total = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    struct stat s {};
    if (::lstat(it->path().c_str(), &s) != 0 || !S_ISREG(s.st_mode)) continue;
    files.push_back({it->path(), nanoseconds(s.st_mtim), static_cast<std::uintmax_t>(s.st_size)});
    total += files.back().size;
  }
  std::sort(files.begin(), files.end(), [](const Known& a, const Known& b) { return a.used < b.used; });
  for (const Known& file : files) {
    if (total <= bound_) break;
    if (::unlink(file.path.c_str()) == 0) total -= file.size, ++dropped_;
  }
}

std::string digest_of(const Problem& problem) {
  Sha256 sum;
  sum.update(problem_digest(problem));
  // A file may be another program by the next time.
  if (const auto program = language::find_mechanism(problem.mechanism)) sum.update(program->program.digest());
  return sum.hex();
}

std::string key_of(const KernelUnderTest& kernel) {
  // A change that adds a member decides here whether anything depends on it.
  const auto& [form, precision, tile, threads, named] = kernel;
  const Contract contract = named == nullptr ? Contract::of(precision) : *named;
  const auto& [name, summary, contract_precision, rounding, products, rules, follows, of_fp32, accumulation,
               towards_zero, factors, per_query_head, sources, file, json] = contract;
  const Policy policy = kernel.policy();
  std::string key =
      fmt::format("form {} ({}) tile {} {} {} {} {} {} {}", form->name, form->summary, tile, name_of(precision),
                  name_of(contract_precision), static_cast<int>(rounding), products, policy.products, per_query_head);
  for (int i = 0; i < policy.sites.size; ++i) {  // as the rules make them
    const auto& entry = policy.sites.entries[i];
    key += fmt::format(" {}:{}:{}", entry.view(), static_cast<int>(entry.role), name_of(entry.format, entry.blocks));
  }
  for (const Accumulation way : contract.accumulations(form->sites)) key += fmt::format(" {}", name_of(way));
  for (const std::string_view site : contract.cut_off_sites(form->sites)) key += fmt::format(" cut {}", site);
  for (const std::string_view input : contract.factored(form->sites)) key += fmt::format(" factor {}", input);
  return key;
}

namespace {

/// All that is kept of these, in order, but what a reader sets itself: members that are added do not compile.
template <class Each, class X>
void each_part(X& x, const Each& each) {
  if constexpr (std::is_same_v<std::remove_const_t<X>, Oracle::Tensor>) {
    auto& [shape, value, bound] = x;
    each(shape), each(value), each(bound);
  } else if constexpr (std::is_same_v<std::remove_const_t<X>, Expectation>) {
    auto& [tensors, emulated] = x;
    each(tensors), each(emulated);
  } else {
    auto& [shape, layout, ulp_format, value, bound, sigma, reach, rms_limit, sums, weight, gains, gain_weight, stall,
           draws, widened, place, stored, freedom, known_reach] = x;
    each(shape), each(layout), each(ulp_format), each(value), each(bound), each(sigma), each(reach), each(rms_limit);
    each(sums), each(weight), each(gains), each(gain_weight), each(stall), each(draws), each(widened), each(stored),
        each(freedom), each(known_reach);
  }
}

template <class T>
constexpr bool has_parts =
    std::is_same_v<T, Oracle::Tensor> || std::is_same_v<T, Expectation> || std::is_same_v<T, Expected>;

/// Whether a float is that very number.
bool is_float(double x) {
  if (std::isinf(x)) return true;
  return std::fabs(x) <= std::numeric_limits<float>::max() && static_cast<double>(static_cast<float>(x)) == x;
}

/// Bytes of each number of a list: the first ones of a float, where the others are zero in all, or a double's.
std::size_t width_of(const std::vector<double>& list) {
  std::uint32_t bits = 0;
  for (const double x : list) {
    if (!is_float(x)) return sizeof(double);
    bits |= std::bit_cast<std::uint32_t>(static_cast<float>(x));
  }
  std::size_t width = sizeof(float);
  for (; width > 1 && (bits & 0xff) == 0; bits >>= 8) --width;
  return width;
}

/// Values one after the other, as this machine has them; numbers in as few bytes as hold all of their list.
class Packer {
 public:
  template <class T>
  void put(const T& x) {
    if constexpr (has_parts<T>)
      each_part(x, [this](const auto& part) { this->put(part); });
    else {
      static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
      bytes_.append(reinterpret_cast<const char*>(&x), sizeof x);
    }
  }
  template <class T>
  void put(const std::vector<T>& list) {
    if constexpr (std::is_same_v<T, double>) {
      const std::size_t width = width_of(list);
      put(width);
      if (width <= sizeof(float)) return put_floats(list, width);
    }
    put(list.size());
    if constexpr (std::is_trivially_copyable_v<T>)
      bytes_.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T));
    else
      for (const T& x : list) put(x);
  }
  void put(const std::string& text) { put(text.size()), bytes_ += text; }
  template <class A, class B>
  void put(const std::pair<A, B>& x) {
    put(x.first), put(x.second);
  }

  std::string bytes() && { return std::move(bytes_); }

 private:
  void put_floats(const std::vector<double>& list, std::size_t width) {
    put(list.size());
    const std::size_t first = bytes_.size();
    bytes_.resize(first + list.size() * width);
    char* at = bytes_.data() + first;
    for (const double x : list) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
      for (std::size_t b = sizeof(float) - width; b < sizeof(float); ++b) *at++ = static_cast<char>(bits >> (8 * b));
    }
  }

  std::string bytes_;
};

/// Reads the bytes that a Packer has put. Throws std::runtime_error where there is less or more.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  void get(T& x) {
    if constexpr (has_parts<T>)
      each_part(x, [this](auto& part) { this->get(part); });
    else
      std::memcpy(&x, take(sizeof x), sizeof x);
  }
  template <class T>
  void get(std::vector<T>& list) {
    if constexpr (std::is_same_v<T, double>) {
      std::size_t width = 0;
      get(width);
      if (width <= sizeof(float)) return get_floats(list, width);
    }
    std::size_t n = 0;
    get(n);
    if (n > bytes_.size()) throw std::runtime_error("cut off");
    list.resize(n);
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (n > 0) std::memcpy(list.data(), take(n * sizeof(T)), n * sizeof(T));
    } else {
      for (T& x : list) get(x);
    }
  }
  void get(std::string& text) {
    std::size_t n = 0;
    get(n);
    text.assign(take(n), n);
  }
  template <class A, class B>
  void get(std::pair<A, B>& x) {
    get(x.first), get(x.second);
  }

  void require_end() const {
    if (!bytes_.empty()) throw std::runtime_error("too long");
  }

 private:
  void get_floats(std::vector<double>& list, std::size_t width) {
    std::size_t n = 0;
    get(n);
    if (n > bytes_.size()) throw std::runtime_error("cut off");
    const char* at = take(n * width);
    list.resize(n);
    for (double& x : list) {
      std::uint32_t bits = 0;
      for (std::size_t b = sizeof(float) - width; b < sizeof(float); ++b)
        bits |= std::uint32_t{static_cast<unsigned char>(*at++)} << (8 * b);
      x = static_cast<double>(std::bit_cast<float>(bits));
    }
  }

  const char* take(std::size_t n) {
    if (n > bytes_.size()) throw std::runtime_error("cut off");
    const char* at = bytes_.data();
    bytes_.remove_prefix(n);
    return at;
  }
  std::string_view bytes_;
};

template <class... T>
std::string packed_all(const T&... parts) {
  Packer packer;
  (packer.put(parts), ...);
  return std::move(packer).bytes();
}
template <class... T>
void unpack_all(std::string_view bytes, T&... parts) {
  Unpacker unpacker(bytes);
  (unpacker.get(parts), ...);
  unpacker.require_end();
}

}  // namespace

std::string packed(const Oracle& oracle) { return packed_all(oracle.head_axis, oracle.tensors); }
std::string packed(const Named<Expected>& tensors) { return packed_all(tensors); }
std::string packed(const std::vector<Expectation>& expectations) { return packed_all(expectations); }
std::string packed(const Detectability& found) {
  const auto& [heads, all_heads, short_mask, long_mask, group, hidden, shown, unseen] = found;
  return packed_all(heads, all_heads, short_mask, long_mask, std::string(group), hidden, shown, unseen);
}

std::string packed(const Named<Format>& formats) { return packed_all(formats); }

void unpack(std::string_view bytes, Named<Format>& formats) { unpack_all(bytes, formats); }
void unpack(std::string_view bytes, Oracle& oracle) { unpack_all(bytes, oracle.head_axis, oracle.tensors); }
void unpack(std::string_view bytes, Named<Expected>& tensors) { unpack_all(bytes, tensors); }
void unpack(std::string_view bytes, std::vector<Expectation>& expectations) { unpack_all(bytes, expectations); }
void unpack(std::string_view bytes, Detectability& found) {
  std::string name;
  auto& [heads, all_heads, short_mask, long_mask, group, hidden, shown, unseen] = found;
  unpack_all(bytes, heads, all_heads, short_mask, long_mask, name, hidden, shown, unseen);
  // The name has to outlive what refers to it.
  group = {};
  for (const SiteGroup& known : site_groups())
    if (known.name == name) group = known.name;
}

void leave_out_what_follows(Expected& expected, bool is_sharper) {
  if (!is_sharper) expected.value.clear(), expected.bound.clear();
  expected.reach.clear(), expected.gain_weight.clear();
  for (double& weight : expected.weight) weight = weight > 0 ? 1 : 0;
}

void put_in_what_follows(Expected& expected, const std::string& name, const Oracle& oracle, double factor,
                         int threads) {
  for (const auto& [tensor, truth] : oracle.tensors)
    if (expected.value.empty() && tensor == name) expected.value = truth.value, expected.bound = truth.bound;
  set_reach(expected, factor, threads);
  for (std::size_t i = 0; i < expected.weight.size(); ++i)
    if (expected.weight[i] > 0) expected.weight[i] = 1 / expected.sigma[i];
  if (!expected.gains.empty()) expected.gain_weight = gain_weights(expected, threads);
}

bool is_worth_keeping(std::size_t bytes, double seconds) {
  constexpr double megabyte = 1e6, of_a_second = 12 * megabyte;
  const auto size = static_cast<double>(bytes);
  return size <= megabyte || size <= seconds * of_a_second;
}

}  // namespace assay
