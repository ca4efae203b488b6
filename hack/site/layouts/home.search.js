{{- $pages := slice -}}
{{- range site.Pages -}}
{{- $headings := slice -}}
{{- range findRESubmatch `(?m)^##+ +(.+)$` .RawContent }}{{ $headings = $headings | append (index . 1) }}{{ end -}}
{{- $pages = $pages | append (dict "title" (partial "title.txt" .) "url" (strings.TrimPrefix "/" .RelPermalink) "headings" $headings "text" (.Plain | replaceRE `\s+` " ")) -}}
{{- end -}}
window.pages = {{ $pages | jsonify }};
