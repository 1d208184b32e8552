#include "files/problem_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "files/layout.hpp"
#include "files/names.hpp"
#include "files/scale_param.hpp"
#include "reference/core/at_once.hpp"
#include "reference/core/error.hpp"
#include "reference/core/sha256.hpp"

namespace assay {
namespace {

using Fields = std::vector<RoomFacts::Ranked>;

// ---- reading

/// The role of a tensor in a room: an input or, if its name begins with d_, the cotangent of an output.
struct Role {
  const RoomFacts::Ranked* ranked = nullptr;
  bool cotangent = false;
};

Role role_of(const Fields& inputs, const Fields& outputs, std::string_view name) {
  const RoomFacts::Ranked* input = find_field(inputs, name);
  if (input != nullptr && input->field.place == Field::Place::input) return {input, false};
  if (name.starts_with("d_")) return {find_field(outputs, name.substr(2)), true};
  return {};
}

/// q, k, v, d_o: the tensors that a case of the room may have.
std::vector<std::string> tensors_of(const Fields& inputs, const Fields& outputs) {
  std::vector<std::string> names;
  for (const auto& r : inputs)
    if (r.field.place == Field::Place::input) names.emplace_back(r.field.name);
  for (const auto& r : outputs) names.push_back(text("d_", r.field.name));
  return names;
}

/// " (did you mean log_decay?)", or "".
std::string meant_by(std::string_view name, const std::vector<std::string>& known) {
  const std::string ours = tensor_called(name);
  const bool there = ours != name && std::find(known.begin(), known.end(), ours) != known.end();
  return there ? " (did you mean " + ours + "?)" : did_you_mean(name, known);
}

Format format_of(const StoredTensor& tensor) {
  for (const Format format : {Format::fp64, Format::fp32, Format::bf16, Format::fp16, Format::e4m3})
    if (tensor.dtype == dtype_of(format)) return format;
  return Format::e5m2;  // the only other one that can be read
}

/// Reads the tensors of one file; remembers what they have in common.
class Reader {
 public:
  Reader(ProblemFile& to, const std::string& where)
      : to_(to), where_(where), inputs_(to.room->inputs()), outputs_(to.room->outputs()) {}

  void add(const std::string& name, Array array) {
    const auto [ranked, cotangent] = role_of(inputs_, outputs_, name);
    if (ranked == nullptr) {
      const std::vector<std::string> known = tensors_of(inputs_, outputs_);
      throw InputError(text(where_, ": tensor ", excerpt(name), ": unknown to ", to_.room->name, meant_by(name, known),
                            ", which takes ", names_in(known)));
    }
    const FileLayout layout = layout_of(name, *ranked, array.shape);
    if (layout.has_heads()) {
      seen_.push_back({name, ranked, layout});
      const Seen& first = seen_.front();
      require(first.layout.batch() == layout.batch(), where_, ": tensor ", name, ": batch of ", layout.batch(),
              ", but ", first.name, " has ", first.layout.batch());
    }
    (cotangent ? to_.problem.cotangents : to_.problem.inputs)[std::string(ranked->field.name)] =
        layout.to_problem(std::move(array));
  }

  /// Once all are there: a folded batch could hide that numbers of heads differ, and would name other numbers than the
  /// file has.
  void count() {
    if (!seen_.empty()) to_.batch = seen_.front().layout.batch();
    if (to_.room->is_program()) return count_any();
    const Seen* own = count(Field::Heads::own);
    const Seen* shared = count(Field::Heads::shared);
    if (own != nullptr) to_.heads = own->layout.heads();
    if (shared != nullptr) to_.shared_heads = shared->layout.heads();
    if (own != nullptr && shared != nullptr && to_.shared_heads > 0)
      refuse_unless(to_.heads % to_.shared_heads == 0, own->name, ": ", to_.heads, " heads cannot share the ",
                    to_.shared_heads, " of ", shared->name, " evenly");
  }

 private:
  struct Seen {
    std::string name;
    const RoomFacts::Ranked* ranked;
    FileLayout layout;
  };

  FileLayout layout_of(const std::string& name, const RoomFacts::Ranked& ranked, const std::vector<int>& shape) const {
    try {
      return FileLayout::of_file(ranked, shape);
    } catch (const InputError& e) {
      throw InputError(text(where_, ": tensor ", name, ": ", e.what()));
    }
  }

  /// Counts the heads of a program, whose inputs may have any number if these divide evenly: the program looks.
  void count_any() {
    for (const Seen& one : seen_) to_.heads = std::max(to_.heads, one.layout.heads());
    to_.shared_heads = to_.heads;
  }

  /// One that has as many heads as the others of that side should have: a state says so without doubt, since only
  /// tensors with tokens can have them in the place of heads; otherwise most of them do.
  const Seen* count(Field::Heads side) {
    const Seen* says = nullptr;
    std::ptrdiff_t most = 0;
    for (const Seen& one : seen_) {
      if (one.ranked->field.heads != side) continue;
      const auto agree = std::count_if(seen_.begin(), seen_.end(), [&](const Seen& other) {
        return other.ranked->field.heads == side && other.layout.heads() == one.layout.heads();
      });
      const std::ptrdiff_t votes = agree + (one.layout.by_token() ? 0 : static_cast<std::ptrdiff_t>(seen_.size()));
      if (votes > most) says = &one, most = votes;
    }
    if (says == nullptr) return nullptr;
    for (const Seen& one : seen_)
      if (one.ranked->field.heads == side && one.layout.heads() != says->layout.heads()) refuse(one, *says);
    const auto first = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& one) {
      return one.ranked->field.heads == side && one.layout.heads() == says->layout.heads();
    });
    return &*first;
  }

  void refuse(const Seen& wrong, const Seen& right) {
    const std::vector<int>& shape = wrong.layout.file_shape();
    const bool exchanged = wrong.layout.by_token() && shape[1] == right.layout.heads();
    std::string names;
    // All that have that many heads, of either side, have them in the same wrong place.
    for (const Seen& one : seen_)
      if (one.layout.by_token() && one.layout.heads() == wrong.layout.heads())
        names += (names.empty() ? "" : ", ") + one.name;
    if (exchanged)
      refuse_unless(false, names, ": expected [B, T, H, ...], got [B, H, T, ...], ", right.layout.heads(),
                    " heads being those of ", right.name, "; transpose axes 1 and 2");
    else
      refuse_unless(false, wrong.name, ": expected ", right.layout.heads(), " heads as in ", right.name, ", got ",
                    wrong.layout.heads());
  }

  template <class... Parts>
  void refuse_unless(bool ok, const Parts&... parts) {
    if (!ok && !to_.refusal) to_.refusal = {Status::domain, -1, text(parts...), {}};
  }

  ProblemFile& to_;
  const std::string& where_;
  Fields inputs_, outputs_;
  std::vector<Seen> seen_;  // with heads
};

// ---- answering

/// Takes `prefix` from the front of `rest`, if it is there.
bool take(std::string_view& rest, std::string_view prefix) {
  if (!rest.starts_with(prefix)) return false;
  rest.remove_prefix(prefix.size());
  return true;
}

/// Takes a number with what stands before and after it: "[3]" or " of head 3:"; -1 if that is not there.
int take_number(std::string_view& rest, std::string_view before, std::string_view after) {
  std::string_view ahead = rest;
  if (!take(ahead, before)) return -1;
  int n = -1;
  const auto [end, error] = std::from_chars(ahead.data(), ahead.data() + ahead.size(), n);
  if (error != std::errc{}) return -1;
  ahead.remove_prefix(static_cast<std::size_t>(end - ahead.data()));
  if (!take(ahead, after)) return -1;
  rest = ahead;
  return n;
}

/// A refusal in terms of the file: "cotangents.o[5][2][0]: ..." is "d_o[1][2][1][0]: ..." where a sequence has four
/// heads. A sentence that names no head stays as it is.
std::string in_terms_of(const ProblemFile& file, const std::string& message) {
  std::string_view rest = message;
  const bool cotangent = take(rest, "cotangents."), gradient = take(rest, "gradients.");
  const std::string name(rest.substr(0, rest.find_first_of("[: ")));
  rest.remove_prefix(name.size());
  const Fields inputs = file.room->inputs(), outputs = file.room->outputs();
  const RoomFacts::Ranked* ranked = cotangent ? nullptr : find_field(inputs, name);
  if (ranked == nullptr && !gradient) ranked = find_field(outputs, name);
  if (ranked == nullptr) return message;
  const std::string shown = (cotangent || gradient ? "d_" : "") + name;
  std::string untouched = shown + std::string(rest);
  std::vector<int> index;
  for (int i = take_number(rest, "[", "]"); i >= 0; i = take_number(rest, "[", "]")) index.push_back(i);
  if (int head = take_number(rest, " of head ", ":"); head >= 0 && ranked->field.heads == Field::Heads::own) {
    index.insert(index.begin(), head);
    rest = std::string_view(message).substr(message.size() - rest.size() - 1);
  }
  const auto given = file.problem.inputs.find(name);
  const std::size_t axes = ranked->field.broadcasts && given != file.problem.inputs.end()
                               ? given->second.shape.size()
                               : static_cast<std::size_t>(ranked->rank) + 1;
  const bool of_all_heads = ranked->field.place == Field::Place::param || index.empty() || index.size() != axes;
  if (of_all_heads) return untouched;
  std::vector<int> shape(axes, 1);
  shape[0] = file.batch * (ranked->field.heads == Field::Heads::own ? file.heads : file.shared_heads);
  if (given != file.problem.inputs.end() && !cotangent && !gradient) shape[0] = given->second.shape.front();
  int block = index.front(), batch = file.batch;
  index.erase(index.begin());
  if (file.parts) {
    block = file.parts->whole_block(block, shape[0] / batch);
    shape[0] = shape[0] / batch * file.parts->all(), batch = file.parts->sequences;
    if (!index.empty()) index.front() += file.parts->row_of(*ranked);
  }
  return shown + FileLayout::of_problem(*ranked, shape, batch).place_in_file(block, index) + std::string(rest);
}

/// The arrays' tensors, in the order of the room; frees what it has put.
void put_all(TensorFile& to, const Fields& fields, const std::string& prefix, const ProblemFile& file,
             BasicArrays<Enclosed>& arrays) {
  for (const RoomFacts::Ranked& ranked : fields)
    if (const auto it = arrays.find(ranked.field.name); it != arrays.end()) {
      to.put(prefix + it->first, it->second, file);
      arrays.erase(it);
    }
}

/// Calls put(suffix, numbers, dtype) for each part of the pairs; one of them at a time is in memory as doubles.
template <class Put>
void put_parts(const BasicArray<Enclosed>& array, Put&& put) {
  const auto part = [&](auto value_of) {
    Array values(array.shape);
    std::transform(array.data.begin(), array.data.end(), values.data.begin(), value_of);
    return values;
  };
  put("", part([](const Enclosed& x) { return x.value.hi; }), "F64");
  put(".lo", part([](const Enclosed& x) { return x.value.lo; }), "F64");
  if (!std::all_of(array.data.begin(), array.data.end(), [](const Enclosed& x) { return x.bound < no_bound; })) return;
  Array bounds = part([](const Enclosed& x) { return x.bound; });
  const std::string dtype = exact_dtype(bounds);
  put(".bound", std::move(bounds), dtype);
}

/// Whether a thread of its own reads it sooner: a millisecond and more.
bool is_large(const StoredTensor& tensor) {
  constexpr std::size_t bytes = 1 << 19;
  return tensor.bytes.size() >= bytes;
}

/// A tensor as it is scattered over a file; the numbers between its own are undefined.
Array scattered_to_file(const Scattered& scattered, const Array& array, bool with_infinities) {
  Array out(scattered.shape);
  std::fill(out.data.begin(), out.data.end(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < array.data.size(); ++i) out.data[scattered.at[i]] = array.data[i];
  for (const std::size_t i : scattered.endless)
    if (with_infinities) out.data[scattered.at[i]] = -std::numeric_limits<double>::infinity();
  return out;
}

/// The inverse, for an answer that was given: where the truth is -inf nothing else will do.
Array scattered_to_problem(const Scattered& scattered, const Array& array, const std::vector<int>& shape) {
  Array out(shape);
  for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] = array.data[scattered.at[i]];
  for (const std::size_t i : scattered.endless)
    out.data[i] = out.data[i] < 0 && std::isinf(out.data[i]) ? 0 : std::numeric_limits<double>::quiet_NaN();
  return out;
}

}  // namespace

std::vector<int> ProblemFile::shape_in_file(const std::string& tensor, const std::vector<int>& in_problem) const {
  if (const auto found = scattered.find(tensor); found != scattered.end()) return found->second.shape;
  return FileLayout::of_problem(answer_field(*room, tensor), in_problem, batch).file_shape();
}

std::function<std::string(std::size_t)> ProblemFile::places_in_file(const std::string& tensor,
                                                                    const std::vector<int>& in_problem) const {
  if (const auto found = scattered.find(tensor); found != scattered.end())
    return [one = found->second](std::size_t i) { return place(one.shape, one.at[i]); };
  if (parts)
    return [some = *parts, ranked = answer_field(*room, tensor), in_problem](std::size_t i) {
      return some.place(ranked, in_problem, i);
    };
  return [layout = FileLayout::of_problem(answer_field(*room, tensor), in_problem, batch)](std::size_t i) {
    return layout.place_in_file(i);
  };
}

void TensorFile::put_stored(const std::string& name, const Array& laid_out, const std::string& dtype) {
  digests_[name] = sha256(laid_out);
  file_.tensors[name] = store(laid_out, dtype);
}

void TensorFile::put(const std::string& name, Array array, const RoomFacts::Ranked& ranked, int batch,
                     const std::string& dtype) {
  const FileLayout layout = FileLayout::of_problem(ranked, array.shape, batch);
  put_stored(name, layout.to_file(std::move(array)), dtype);
}

void TensorFile::put(const std::string& name, const BasicArray<Enclosed>& array, const RoomFacts::Ranked& ranked,
                     int batch) {
  put_parts(array, [&](const char* suffix, Array values, const std::string& dtype) {
    put(name + suffix, std::move(values), ranked, batch, dtype);
  });
}

void TensorFile::put(const std::string& name, Array array, const ProblemFile& file, const std::string& tensor,
                     const std::string& dtype) {
  const auto found = file.scattered.find(tensor);
  if (found == file.scattered.end())
    put(name, std::move(array), answer_field(*file.room, tensor), file.batch, dtype);
  else
    put_stored(name, scattered_to_file(found->second, array, name == tensor), dtype);
}

void TensorFile::put(const std::string& name, const BasicArray<Enclosed>& array, const ProblemFile& file) {
  put_parts(array, [&](const char* suffix, Array values, const std::string& dtype) {
    put(name + suffix, std::move(values), file, name, dtype);
  });
}

Safetensors TensorFile::finish(std::map<std::string, std::string> metadata) && {
  file_.metadata = std::move(metadata);
  file_.metadata["sha256"] = digests_.dump();
  return std::move(file_);
}

ProblemFile read_problem(Safetensors file, const std::string& where) {
  ProblemFile read;
  read.metadata = std::move(file.metadata);
  const auto mechanism = read.metadata.find("mechanism"), params = read.metadata.find("params");
  require(mechanism != read.metadata.end(), where, ": __metadata__.mechanism: missing; `assay case` writes cases");
  read.problem.mechanism = mechanism->second;
  if (arguments::read_case_with_arguments(read, file.tensors, where)) return read;
  read.room = find_room(mechanism->second);
  if (params != read.metadata.end()) {
    Json object = parse_json(params->second, where + ": __metadata__.params");
    require(object.is_object(), where, ": __metadata__.params: expected a JSON object");
    const CaseResult result = attempt([&] {
      read.problem.params = params_from({{"params", std::move(object)}});
      if (read.room != nullptr) take_scale(*read.room, read.problem.params);
    });
    if (read.room != nullptr) spell_numbers(*read.room, read.problem.params);
    if (result.status != Status::ok) read.refusal = result;
  }
  if (read.room == nullptr) {
    const Refusal unknown = unknown_mechanism(mechanism->second);
    read.refusal = {unknown.status(), unknown.row(), unknown.what(), {}};
  }
  std::optional<Reader> reader;
  if (read.room != nullptr) reader.emplace(read, where);
  std::vector<const std::pair<const std::string, StoredTensor>*> tensors;
  for (const auto& tensor : file.tensors) tensors.push_back(&tensor);
  auto arrays = at_once(
      tensors.size(), [&](std::size_t i) { return is_large(tensors[i]->second); },
      [&](std::size_t i) {
        Array array = load(text(where, ": tensor ", tensors[i]->first), tensors[i]->second);
        std::string digest = sha256(array);
        return std::pair(std::move(array), std::move(digest));
      });
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    auto& [array, digest] = arrays[i];
    const std::string& name = tensors[i]->first;
    read.dtypes[name] = format_of(tensors[i]->second), read.digests[name] = std::move(digest);
    if (reader) reader->add(name, std::move(array));
  }
  if (reader) reader->count();
  return read;
}

Safetensors read_case(const std::string& path) {
  std::error_code unknown;  // why a file is not there, reading says
  require(is_safetensors(path) || !std::filesystem::exists(path, unknown), path,
          ": not a safetensors file; `assay case` writes the cases that can be checked");
  return read_safetensors(path);
}

Safetensors with_mechanism(Safetensors stored, const std::string& mechanism) {
  if (mechanism.empty()) return stored;
  stored.metadata["mechanism"] = room_named(mechanism, "--mechanism")->name;
  return stored;
}

CaseResult answer_problem(const ProblemFile& file, std::optional<Tier> tier, int threads, const PartDone& done,
                          BasicAnswer<Enclosed>& answer) {
  if (file.refusal) return *file.refusal;
  CaseResult result = attempt([&] { answer = answer_large(*file.room, file.problem, tier, threads, done); });
  if (result.status == Status::ok || file.has_arguments()) return result;
  result.message = in_terms_of(file, result.message);
  if (result.message.starts_with("log_decay") && result.message.ends_with("must be <= 0"))
    result.message += "; if this is the decay itself, take its logarithm";
  if (result.message == "params.bandwidth: missing")
    result.message += "; or params.scale, its reciprocal: 1 / sqrt(K) is what most kernels take where nothing is said";
  return result;
}

RoomFacts::Ranked answer_field(const Room& room, std::string_view tensor) {
  const Fields inputs = room.inputs(), outputs = room.outputs();
  const RoomFacts::Ranked* ranked = find_field(outputs, tensor);
  if (ranked == nullptr && tensor.starts_with("d_")) ranked = find_field(inputs, tensor.substr(2));
  require(ranked != nullptr, tensor, ": unknown to ", room.name);
  return *ranked;
}

namespace {

/// The mechanism as it was typed, without what tells a room of cases with arguments from another.
std::string_view mechanism_of(const ProblemFile& problem) {
  const std::string_view name = problem.room->name;
  return problem.has_arguments() ? name.substr(0, name.rfind('+')) : name;
}

/// The tensor of the answer that is probably meant by the one it does not have.
std::string missing(const std::string& name, const std::vector<std::string>& unknown) {
  for (const std::string& other : unknown)
    if (tensor_called(other) == name) return "; is it " + excerpt(other) + "?";
  const std::string near = nearest_name(name, unknown);
  return near.empty() ? "" : "; is it " + excerpt(near) + "?";
}

/// Why an answer need not have that tensor, a gradient that few kernels have or an output that the case does not ask
/// for; "" if it must.
std::string why_optional(const ProblemFile& problem, const RoomFacts::Ranked& ranked, const std::string& name) {
  const auto scattered = problem.scattered.find(name);
  if (scattered != problem.scattered.end() && scattered->second.is_optional) return "the answer has none";
  const bool is_given = ranked.field.place == Field::Place::input && problem.problem.inputs.contains(ranked.field.name);
  return name.starts_with("d_") && !is_given ? "the answer has none" : "";
}

/// Throws InputError if the answer has a tensor that is none of `known`; pairs of the oracle's own answers are none.
void refuse_unknown(const std::vector<std::string>& unknown, const std::vector<std::string>& known,
                    const ProblemFile& problem, const std::string& where) {
  for (const std::string& name : unknown) {
    const std::string tensor = name.substr(0, name.find('.'));
    const bool is_pair = name == tensor + ".lo" || name == tensor + ".bound";
    if (is_pair && std::find(known.begin(), known.end(), tensor) != known.end()) continue;
    const bool gradient = name.starts_with("d_") && problem.problem.cotangents.empty();
    throw InputError(text(where, ": tensor ", excerpt(name), ": the case does not ask for it",
                          gradient ? ", for it has no cotangents" : meant_by(name, known), "; to this case ",
                          mechanism_of(problem), " answers ", names_in(known), "; --tensor judges some of them"));
  }
}

/// The sampled parts of an answer's tensor. Throws InputError, as read_outputs() does, if the whole has another shape.
StoredTensor sampled_of(const StoredTensor& whole, const ProblemFile& problem, const std::string& name,
                        const std::vector<int>& shape, const std::string& where) {
  const RoomFacts::Ranked ranked = answer_field(*problem.room, name);
  const std::vector<int> expected = problem.parts->whole_shape(FileLayout::of_problem(ranked, shape, problem.batch));
  require(whole.shape == expected, where, ": tensor ", name, ": expected shape ", shape_text(expected), ", got ",
          shape_text(whole.shape), mistaken_axes(ranked, expected, whole.shape));
  return problem.parts->cut(whole, ranked);
}

/// Whether more than the sampled parts and rows add to a gradient: it is one number for all heads, or it has no row for
/// each query, as where one number was given for all of them.
bool is_summed(const SampledParts& parts, const RoomFacts::Ranked& ranked, const std::vector<int>& shape, int batch) {
  const FileLayout layout = FileLayout::of_problem(ranked, shape, batch);
  return !layout.has_heads() || parts.adds_rows(ranked) || (parts.rows > 0 && !layout.by_token());
}

/// A plugin's output is bytes of ones until something is written there.
bool is_written(const StoredTensor& tensor) {
  return std::any_of(tensor.bytes.begin(), tensor.bytes.end(), [](std::uint8_t byte) { return byte != 0xff; });
}

/// A tensor of an answer that is read.
struct Present {
  const std::string& name;
  RoomFacts::Ranked ranked;
  const std::vector<int>& shape;
  const StoredTensor& stored;
};

/// Those that are; `given` hears of their dtypes, and of those that are not.
std::vector<Present> present_in(Safetensors& file, const ProblemFile& problem, const Named<std::vector<int>>& answered,
                                const std::vector<std::string>& tensors, const std::string& where, GivenAnswer& given) {
  std::vector<std::string> known;
  for (const auto& [name, shape] : answered) known.push_back(name);
  std::vector<std::string> unknown;
  for (const auto& [name, tensor] : file.tensors)
    if (std::find(known.begin(), known.end(), name) == known.end()) unknown.push_back(name);
  std::vector<Present> present;
  for (const auto& [name, shape] : answered) {
    if (std::ranges::find(shape, 0) != shape.end()) continue;
    const bool asked = std::find(tensors.begin(), tensors.end(), name) != tensors.end();
    const RoomFacts::Ranked ranked = answer_field(*problem.room, name);
    const bool gradient = name.starts_with("d_");
    const auto found = file.tensors.find(name);
    std::string why;
    if (!asked && !tensors.empty())
      why = "--tensor leaves it out";
    else if (problem.parts && gradient && is_summed(*problem.parts, ranked, shape, problem.batch))
      why = "other parts, or other rows, add to it";
    else if (!asked && (found == file.tensors.end() || !is_written(found->second)))
      why = why_optional(problem, ranked, name);
    if (!why.empty()) {
      given.not_judged.push_back({name, std::move(why)});
      continue;
    }
    require(found != file.tensors.end(), where, ": tensor ", name, ": missing", missing(name, unknown),
            "; to this case ", mechanism_of(problem), " answers ", names_in(known), "; --tensor judges some of them");
    if (problem.parts) found->second = sampled_of(found->second, problem, name, shape, where);
    const std::vector<int> expected = problem.shape_in_file(name, shape);
    require(found->second.shape == expected, where, ": tensor ", name, ": expected shape ", shape_text(expected),
            ", got ", shape_text(found->second.shape),
            problem.has_arguments() ? "" : mistaken_axes(ranked, expected, found->second.shape));
    given.stored[name] = format_of(found->second);
    present.push_back({name, ranked, shape, found->second});
  }
  if (tensors.empty()) refuse_unknown(unknown, known, problem, where);
  return present;
}

}  // namespace

void require_outputs(Safetensors& file, const ProblemFile& problem, const Named<std::vector<int>>& answered,
                     const std::vector<std::string>& tensors, const std::string& where) {
  GivenAnswer given;
  present_in(file, problem, answered, tensors, where, given);
}

GivenAnswer read_outputs(Safetensors file, const ProblemFile& problem, const Named<std::vector<int>>& answered,
                         const std::vector<std::string>& tensors, const std::string& where) {
  GivenAnswer given;
  const std::vector<Present> present = present_in(file, problem, answered, tensors, where, given);
  std::vector<Array> arrays = at_once(
      present.size(), [&](std::size_t i) { return is_large(present[i].stored); },
      [&](std::size_t i) {
        const auto& [name, ranked, shape, tensor] = present[i];
        Array array = load(text(where, ": tensor ", name), tensor);
        const auto scattered = problem.scattered.find(name);
        if (scattered != problem.scattered.end()) return scattered_to_problem(scattered->second, array, shape);
        return FileLayout::of_problem(ranked, shape, problem.batch).to_problem(std::move(array));
      });
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::string& name = present[i].name;
    const bool gradient = name.starts_with("d_");
    (gradient ? given.answer.gradients : given.answer.outputs)[gradient ? name.substr(2) : name] = std::move(arrays[i]);
  }
  return given;
}

Safetensors answer_file(const ProblemFile& file, std::optional<Tier> tier, int threads, std::string_view tool_version,
                        const PartDone& done) {
  BasicAnswer<Enclosed> answer;
  const CaseResult result = answer_problem(file, tier, threads, done, answer);
  TensorFile to;
  if (result.status == Status::ok) {
    put_all(to, file.room->outputs(), "", file, answer.outputs);
    put_all(to, file.room->inputs(), "d_", file, answer.gradients);
  }
  // The case's words about itself stay; those of an earlier answer do not.
  std::map<std::string, std::string> metadata = file.metadata;
  for (const char* key : {"row", "message"}) metadata.erase(key);
  metadata["format"] = "assay-answer 1";
  metadata["status"] = name_of(result.status);
  if (result.row >= 0) metadata["row"] = std::to_string(result.row);
  if (!result.message.empty()) metadata["message"] = result.message;
  metadata["tier"] = tier ? name_of(*tier) : "proven";
  metadata["inputs_sha256"] = file.digests.dump();
  metadata["tool_version"] = tool_version;
  return std::move(to).finish(std::move(metadata));
}

}  // namespace assay
