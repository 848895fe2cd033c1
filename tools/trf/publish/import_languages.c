// trf import: the languages of a tokenizer, and the tokens that stand for them.
//
// The codes of a class have ids in the order of these lists. trf translate reads from the model's
// metadata what --source-language and --target-language mean:
//
//   languages       the codes, with blanks between them
//   source.tag      an option of a search and a token, in which '*' stands for the code, such as
//   target.tag      "source-first __*__"
//   source.language the codes for which no option is needed: "src_lang" of the tokenizer, and the
//   target.language language of the token that begins all answers ("forced_bos_token_id"), or
//                   "tgt_lang"; in mBART-25 that of "decoder_start_token_id"

#include "import_sentencepiece.h"

static const char m2m_codes[] =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd "
    "gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg "
    "mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw "
    "ta th tl tn tr uk ur uz vi wo xh yi yo zh zu";

static const char wmt21_codes[] =
    "en ha is ja cs ru zh de";

#define MBART_CODES \
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR " \
    "lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
static const char mbart_codes[] = MBART_CODES;
static const char mbart50_codes[] = MBART_CODES " "
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL "
    "ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";

static const char nllb_codes[] =
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi "
    "apc_Arab arb_Arab ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn "
    "azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva "
    "bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn "
    "cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt "
    "ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn "
    "fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn gle_Latn glg_Latn grn_Latn "
    "guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn "
    "ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn "
    "kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn "
    "kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang kmr_Latn "
    "lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn "
    "lua_Latn lug_Latn luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn "
    "mkd_Cyrl plt_Latn mlt_Latn mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr "
    "nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn nya_Latn oci_Latn gaz_Latn "
    "ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab quy_Latn "
    "ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh "
    "slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn "
    "srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml tat_Cyrl "
    "tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
    "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn "
    "urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn "
    "yue_Hant zho_Hans zho_Hant zul_Latn";

// -----------------------------------------------------------------------------------------------
// >>languages
// -----------------------------------------------------------------------------------------------

const struct tag_rule tag_rules[] = {
    {MARIAN, 0, NULL, "source-first >>*<<"},
    {M2M100, 0, "source-first __*__", "forced-first __*__"},
    {NLLB, 0, "source-first *", "forced-first *"},
    {NLLB, 1, "source-last *", "forced-first *"},
    {MBART, 0, "source-last *", "start *"},     /* without --target-language: the language of
                                                   starts_with_tag */
    {MBART50, 0, "source-first *", "forced-first *"},
    {NO_CLASS, 0, NULL, NULL}};

const char *codes_of(int is, const char *named)
{
    switch (is) {
    case M2M100: return named && !strcmp(named, "wmt21") ? wmt21_codes : m2m_codes;
    case NLLB: return nllb_codes;
    case MBART: return mbart_codes;
    case MBART50: return mbart50_codes;
    default: return "";
    }
}

char *next_code(const char **codes)
{
    size_t n = strcspn(*codes, " ");
    char *code = n ? format_text("%.*s", (int)n, *codes) : NULL;
    *codes += n + ((*codes)[n] == ' ');
    return code;
}

char *tag_of(int class_of, const char *code)
{
    return format_text(class_of == M2M100 ? "__%s__" : "%s", code);
}

/* Appends a code. */
static void add_language(struct tags *tags, const char *code, size_t n)
{
    tags->languages = grow(tags->languages, &tags->capacity, tags->n + n + 2, 1);
    if (tags->n) tags->languages[tags->n++] = ' ';
    memcpy(tags->languages + tags->n, code, n);
    tags->n += n;
    tags->languages[tags->n] = 0;
}

/* Notes a code if the folder names it as that of sources or of answers. */
static void name_language(const struct published *p, struct tags *tags, const char *code,
                          int32_t id)
{
    const char *from = json_text(p->config, "src_lang"), *to = json_text(p->config, "tgt_lang");
    if (from && !strcmp(from, code)) tags->code[0] = format_text("%s", code);
    /* mBART-25 answers in the language of its start token */
    if (p->is == MBART ? tags->first == id
        : tags->forced >= 0 ? tags->forced == id : to && !strcmp(to, code))
        tags->code[1] = format_text("%s", code);
}

void find_languages(const struct published *p, const struct table *all, struct tags *tags)
{
    const char *codes = codes_of(p->is, json_text(p->config, "language_codes"));
    int legacy = p->is == NLLB && json_true(p->config, "legacy_behaviour", 0);
    const struct tag_rule *rule = tag_rules;
    char *code;
    size_t i;
    for (; (code = next_code(&codes)) != NULL; free(code)) {
        char *tag = tag_of(p->is, code);
        const struct entry *found = find_text(all, tag);
        if (found) {
            add_language(tags, code, strlen(code));
            name_language(p, tags, code, found->id);
        }
        free(tag);
    }
    for (i = 0; p->is == MARIAN && i < all->n; i++) {
        const char *text = all->entry[i].text;
        size_t n = strlen(text);
        if (n > 4 && !strncmp(text, ">>", 2) && !strcmp(text + n - 2, "<<"))
            add_language(tags, text + 2, n - 4);
    }
    if (!tags->languages) return;
    if (json_text(p->config, "tokenizer_class") &&
        !strcmp(json_text(p->config, "tokenizer_class"), "PreTrainedTokenizerFast"))
        inform_line("%s: the class PreTrainedTokenizerFast puts no tag of a language before a text, "
                    "but trf does", p->folder);
    while (rule->is != p->is || rule->legacy != legacy) rule++;
    tags->source = rule->source;
    tags->target = rule->target;
}

int32_t starts_with_tag(const struct published *p, const struct table *all)
{
    const char *codes = p->is == MBART ? codes_of(MBART, NULL) : "";
    int32_t start = -1;
    char *code;
    for (; (code = next_code(&codes)) != NULL; free(code)) {
        const struct entry *found = find_text(all, code);
        if (found && found->id == p->tags->start) start = found->id;
    }
    return start;
}

int set_tags(trf_model *model, const struct tags *tags)
{
    const char *const entries[][2] = {{"languages", tags->languages},
                                      {"source.tag", tags->source}, {"target.tag", tags->target},
                                      {language_keys[0], tags->source ? tags->code[0] : NULL},
                                      {language_keys[1], tags->target ? tags->code[1] : NULL}};
    trf_error err;
    size_t i;
    for (i = 0; i < sizeof entries / sizeof *entries; i++)
        if (entries[i][1] && trf_model_set_metadata(model, entries[i][0], entries[i][1], &err))
            return refuse_error(NULL, &err);
    return DONE;
}

void free_tags(struct tags *tags)
{
    free(tags->languages);
    free(tags->code[0]);
    free(tags->code[1]);
}
