//! What an agent may use on PostgreSQL. Anything not listed here is refused.
//!
//! Left out, and why: what reveals something about others (`pg_*`, `*_to_xml`, `has_*_privilege`, `*_description`,
//! `reg*` types), what reaches beyond the database (`dblink*`, `lo_*`, files, except `nextval`), what changes the
//! session or outlives the statement (`set_config`, advisory locks, `pg_notify`), what runs text as SQL
//! (`query_to_xml`, `ts_stat`, `ts_rewrite`), and what may run for long without checking its deadline (`xpath`,
//! `xmlexists`, `xmltable`).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::Policy;
use crate::verdict::StatementKind;

const STATEMENTS: &[StatementKind] = &[
    StatementKind::Select,
    StatementKind::Explain,
    StatementKind::Insert,
    StatementKind::Update,
    StatementKind::Delete,
    StatementKind::Merge,
    StatementKind::Truncate,
    StatementKind::CreateTable,
    StatementKind::CreateView,
    StatementKind::CreateIndex,
    StatementKind::CreateSequence,
    StatementKind::CreateType,
    StatementKind::Alter,
    StatementKind::Drop,
    StatementKind::Comment,
    StatementKind::Refresh,
];

/// Functions by chapter of PostgreSQL's manual.
const FUNCTIONS: &[&str] = &[
    // Comparison and conditions.
    "num_nonnulls num_nulls coalesce nullif greatest least",
    // Numbers.
    "abs cbrt ceil ceiling degrees div erf erfc exp factorial floor gcd lcm ln log log10 min_scale mod pi power pow radians \
     round scale sign sqrt trim_scale trunc width_bucket random random_normal gamma lgamma acos acosd asin asind atan \
     atand atan2 atan2d cos cosd cot cotd sin sind tan tand sinh cosh tanh asinh acosh atanh numeric_inc",
    // Text.
    "ascii bit_length btrim casefold char_length character_length chr concat concat_ws format initcap left length lower lpad \
     ltrim md5 normalize is_normalized octet_length overlay parse_ident position quote_ident quote_literal quote_nullable \
     regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array \
     regexp_substr repeat replace reverse right rpad rtrim split_part starts_with string_to_array strpos substr \
     substring textcat to_ascii to_bin to_hex to_oct translate trim unistr upper unicode_assigned like like_escape \
     similar_to_escape similar_escape notlike texteq bpchar",
    // Bytes and bits.
    "bit_count crc32 crc32c convert convert_from convert_to decode encode get_bit get_byte set_bit set_byte sha224 sha256 \
     sha384 sha512",
    // Formatting.
    "to_char to_date to_number to_timestamp",
    // Dates and times.
    "age clock_timestamp date_add date_bin date_part date_subtract date_trunc extract isfinite justify_days justify_hours \
     justify_interval make_date make_interval make_time make_timestamp make_timestamptz now statement_timestamp timeofday \
     transaction_timestamp timezone overlaps current_date current_time current_timestamp localtime localtimestamp",
    // Enumerations.
    "enum_first enum_last enum_range",
    // Geometry.
    "area center diagonal diameter height isclosed ishorizontal isopen isparallel isperp isvertical npoints pclose popen radius slope width box bound_box circle line \
     lseg path point polygon",
    // Network addresses.
    "abbrev broadcast family host hostmask inet_merge inet_same_family masklen netmask network set_masklen macaddr8_set7bit",
    // Full text.
    "array_to_tsvector json_to_tsvector jsonb_to_tsvector numnode phraseto_tsquery plainto_tsquery \
     querytree setweight strip to_tsquery to_tsvector ts_delete ts_filter ts_headline ts_rank ts_rank_cd \
     tsquery_phrase tsvector_to_array websearch_to_tsquery ts_lexize",
    // Identifiers.
    "gen_random_uuid uuid_generate_v4 uuidv4 uuidv7 uuid_extract_timestamp uuid_extract_version",
    // JSON.
    "array_to_json json json_array json_array_length json_arrayagg json_build_array json_build_object json_exists \
     json_extract_path json_extract_path_text json_object json_objectagg json_populate_record json_query json_scalar \
     json_serialize json_strip_nulls json_to_record json_typeof json_value jsonb_array_length jsonb_build_array \
     jsonb_build_object jsonb_concat jsonb_contains jsonb_delete jsonb_delete_path jsonb_exists jsonb_exists_all jsonb_exists_any jsonb_extract_path \
     jsonb_extract_path_text jsonb_insert jsonb_object jsonb_path_exists jsonb_path_exists_tz jsonb_path_match \
     jsonb_path_match_tz jsonb_path_query_array jsonb_path_query_array_tz jsonb_path_query_first \
     jsonb_path_query_first_tz jsonb_populate_record jsonb_populate_record_valid jsonb_pretty jsonb_set jsonb_set_lax \
     jsonb_strip_nulls jsonb_to_record jsonb_typeof row_to_json to_json to_jsonb",
    // XML that is made or parsed.
    "xmlagg xmlattributes xmlcomment xmlconcat xmlelement xmlforest xmlparse xmlpi xmlserialize xml_is_well_formed \
     xml_is_well_formed_content xml_is_well_formed_document",
    // Arrays.
    "array_append array_cat array_dims array_fill array_length array_lower array_ndims array_position array_positions \
     array_prepend array_remove array_replace array_reverse array_sample array_shuffle array_sort array_to_string \
     array_upper cardinality trim_array",
    // Ranges.
    "isempty lower_inc lower_inf multirange range_merge upper_inc upper_inf int4range int8range numrange tsrange tstzrange \
     daterange int4multirange int8multirange nummultirange tsmultirange tstzmultirange datemultirange range_intersect_agg \
     range_agg range_contains range_overlaps",
    // Aggregates.
    "any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or count every json_agg json_agg_strict \
     json_object_agg json_object_agg_strict json_object_agg_unique json_object_agg_unique_strict jsonb_agg \
     jsonb_agg_strict jsonb_object_agg jsonb_object_agg_strict jsonb_object_agg_unique \
     jsonb_object_agg_unique_strict max min string_agg sum corr covar_pop covar_samp regr_avgx regr_avgy regr_count \
     regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy stddev stddev_pop stddev_samp var_pop var_samp variance \
     mode percentile_cont percentile_disc grouping merge_action",
    // Window functions.
    "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number",
    // The agent's own sequences: the names in the arguments resolve with its rights.
    "nextval currval lastval setval",
    // About a value.
    "pg_typeof pg_column_size pg_size_pretty pg_size_bytes hashtext hashtextextended collation_for pg_collation_for current_user session_user current_role user current_schema",
    // Not functions: the portable grammar reads `ARRAY(SELECT …)`, `ROW(…)` and `PARTITION BY RANGE (…)` as calls.
    "array range list hash row",
    // Casts written as calls.
    "text varchar char int2 int4 int8 float4 float8 numeric bool date time timestamp timestamptz timetz interval jsonb uuid \
     inet cidr macaddr bytea bit varbit name money tsquery tsvector point",
    // pgvector.
    "binary_quantize cosine_distance hamming_distance inner_product jaccard_distance l1_distance l2_distance l2_norm \
     l2_normalize subvector vector_dims vector_norm array_to_vector array_to_halfvec array_to_sparsevec vector halfvec \
     sparsevec",
    // Case-insensitive similarity, if the operator installed pg_trgm, unaccent, fuzzystrmatch.
    "similarity word_similarity strict_word_similarity show_trgm unaccent levenshtein levenshtein_less_equal soundex \
     difference metaphone dmetaphone dmetaphone_alt",
];

/// Functions that are allowed in place of a table, or return rows.
const TABLE_FUNCTIONS: &[&str] = &[
    "generate_series generate_subscripts unnest regexp_matches regexp_split_to_table string_to_table",
    "json_array_elements json_array_elements_text json_each json_each_text json_object_keys json_populate_recordset \
     json_to_recordset json_to_record json_populate_record json_table jsonb_array_elements jsonb_array_elements_text jsonb_each \
     jsonb_each_text jsonb_object_keys jsonb_path_query jsonb_path_query_tz jsonb_populate_recordset jsonb_populate_record \
     jsonb_to_recordset jsonb_to_record",
    "ts_parse ts_token_type",
];

const TYPES: &[&str] = &[
    "bigint bigserial bit varbit bool boolean box bpchar bytea char character cidr circle date decimal float float4 float8 \
     double inet int int2 int4 int8 integer interval json jsonb jsonpath line lseg macaddr macaddr8 money name nchar \
     numeric dec path point polygon real record serial serial2 serial4 serial8 smallint smallserial text time \
     timestamp timestamptz timetz tsquery tsvector uuid varchar varying unknown oid tid xml regconfig",
    "int4range int8range numrange tsrange tstzrange daterange int4multirange int8multirange nummultirange tsmultirange \
     tstzmultirange datemultirange",
    "vector halfvec sparsevec citext ltree hstore",
];

/// Types that look up names in the catalog, also by number: those of every scope.
const CATALOG_TYPES: &[&str] = &[
    "regclass regcollation regdictionary regnamespace regoper regoperator regproc regprocedure regrole regtype \
     regdatabase aclitem",
];

/// Types that are internal to the engine.
const INTERNAL_TYPES: &[&str] = &[
    "any anyarray anycompatible anyelement anyenum cid cstring event_trigger fdw_handler gtsvector index_am_handler internal language_handler opaque refcursor table_am_handler trigger \
     tsm_handler txid_snapshot void xid xid8",
];

/// Functions refused anywhere, including as `alias.name`, which may call a function of one argument.
const DENIED: &[&str] = &[
    "lo_close lo_creat lo_create lo_export lo_from_bytea lo_get lo_import lo_lseek lo_lseek64 lo_open lo_put lo_tell \
     lo_tell64 lo_truncate lo_truncate64 lo_unlink loread lowrite set_config current_setting current_schemas \
     current_database current_query currtid currtid2 ts_stat ts_rewrite row_security_active getdatabaseencoding \
     col_description obj_description shobj_description query_to_xml query_to_xmlschema query_to_xml_and_xmlschema \
     table_to_xml table_to_xmlschema table_to_xml_and_xmlschema schema_to_xml schema_to_xmlschema \
     schema_to_xml_and_xmlschema database_to_xml database_to_xmlschema database_to_xml_and_xmlschema cursor_to_xml \
     cursor_to_xmlschema xpath_table crosstab connectby inet_client_addr inet_client_port inet_server_addr \
     inet_server_port acldefault aclexplode makeaclitem oidvectortypes xid8 setseed amvalidate fmgr_c_validator \
     fmgr_internal_validator fmgr_sql_validator brin_summarize_new_values brin_summarize_range brin_desummarize_range \
     gin_clean_pending_list mxid_age getpgusername",
];

/// Prefixes of such names.
const DENIED_PREFIXES: &[&str] =
    &["pg_", "dblink", "binary_upgrade_", "plpgsql_", "postgres_fdw_", "txid_", "to_reg"];

/// Fills in the lists.
pub(super) fn fill(policy: &mut Policy) {
    policy.statements = STATEMENTS.iter().copied().collect();
    policy.functions = words(FUNCTIONS);
    policy.table_functions = words(TABLE_FUNCTIONS);
    policy.types = words(TYPES);
    policy.reserved_prefixes = vec!["pg_".to_owned(), "_mem_".to_owned()];
    policy.reserved_names = words(&["information_schema memory_entries"]);
}

/// Texts of words as a set.
fn words(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect()
}

/// Whether a name is a function that must not be called under any spelling.
pub(crate) fn is_denied_function(name: &str) -> bool {
    DENIED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || DENIED_SET.contains(name)
        || name.ends_with("_privilege")
}

/// Functions that take a sequence as a text or a number, which may be another scope's.
pub(crate) const OF_SEQUENCES: &[&str] = &["nextval", "currval", "setval"];

/// Whether a name must not follow a value, `(value).name`: the engine takes it for a call of a function or for a cast to
/// a type if the value has no such field.
pub(crate) fn is_denied_field(name: &str) -> bool {
    let element = element(name);
    let converts = |ty: &str| matches!(element.strip_prefix(ty), Some("in" | "out" | "send" | "recv"));
    OF_SEQUENCES.contains(&name)
        || is_denied_function(element)
        || CATALOG_TYPE_SET.iter().any(|ty| element == ty || converts(ty))
}

/// Whether a name is a type that reads the catalog, or an array of it.
pub(crate) fn is_catalog_type(name: &str) -> bool {
    CATALOG_TYPE_SET.contains(element(name))
}

/// Whether a name is a type that reads the catalog or is internal to the engine, or an array of it.
pub(crate) fn is_denied_type(name: &str) -> bool {
    is_catalog_type(name) || INTERNAL_TYPE_SET.contains(element(name))
}

/// The type of an array's elements: its own name begins with an underscore.
pub(crate) fn element(name: &str) -> &str {
    name.trim_start_matches('_')
}

static DENIED_SET: LazyLock<BTreeSet<String>> = LazyLock::new(|| words(DENIED));
static CATALOG_TYPE_SET: LazyLock<BTreeSet<String>> = LazyLock::new(|| words(CATALOG_TYPES));
static INTERNAL_TYPE_SET: LazyLock<BTreeSet<String>> = LazyLock::new(|| words(INTERNAL_TYPES));
